"""Run experiments and write the report: what the command calls."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rltune.errors import InputError
from rltune.parallel import spread_over
from rltune.reproduce.catalogue import chosen
from rltune.reproduce.experiment import Experiment, Made
from rltune.reproduce.page import Reproduction, write_reproduction
from rltune.reproduce.runner import Runner, RunProgress
from rltune.reproduce.step import Step, Workbench, in_order
from rltune.reproduce.workloads import Origin, find_origins
from rltune.text import counted

if TYPE_CHECKING:
    from rltune.reproduce.cells import Section
    from rltune.reproduce.run_size import RunSize

KEPT = "kept"  # the folder of results of steps
GIB = 2**30


def perform(
    out: Path,
    traces: Path | None,
    scope: RunSize,
    only: Sequence[str],
    *,
    budget_s: float,
    workers: int,
    tell: Callable[[RunProgress], None],
    say: Callable[[str], None],
) -> Reproduction:
    """Make what is missing, and write the report after every experiment and at the end."""
    experiments = chosen(only)
    bench = Workbench(_folder(out), find_origins(traces, scope.synthetic_jobs))

    def report(*, complete: bool) -> Reproduction:
        made = Reproduction(
            tuple(_section(e, Made(bench, scope), runner.failed) for e in experiments),
            scope,
            _used(bench, experiments, scope),
            machine=_machine(),
            complete=complete,
            commit=_commit(),
        )
        write_reproduction(made, out)
        return made

    _announce(bench, experiments, scope, workers, say)
    with spread_over(workers) as spread:
        runner = Runner(bench, scope, spread, workers, budget_s, tell)
        complete = runner.run(experiments, lambda _: report(complete=False))
    return report(complete=complete and not runner.failed)


def _section(experiment: Experiment, made: Made, failed: dict[Step, str]) -> Section:
    """Return what an experiment has to show; what is missing is said."""
    steps = [step for wave in in_order(experiment.steps(made.scope)) for step in wave]
    told = [f"{step.told}: {failed[step]}" for step in steps if step in failed and not _because(step, failed)]
    late = sum(made.get(step) is None and step not in failed for step in steps)
    if late:
        told.append(f"{late} of {len(steps)} steps were not made in the time given.")
    section = experiment.section(made)
    return replace(section, missing=(*section.missing, *told))


def _because(step: Step, failed: dict[Step, str]) -> bool:
    """Return whether a step failed only because one that it needs did."""
    return any(other in failed for other in step.needs)


def _announce(
    bench: Workbench, experiments: Sequence[Experiment], scope: RunSize, workers: int, say: Callable[[str], None]
) -> None:
    steps = dict.fromkeys(step for e in experiments for wave in in_order(e.steps(scope)) for step in wave)
    missing = [step for step in steps if not bench.is_done(step)]
    minutes = sum(step.cost_s for step in missing) / 60 / workers
    kept = f", {len(steps) - len(missing)} kept from before" if len(missing) < len(steps) else ""
    say(f"{len(missing)} steps to make{kept}: about {minutes:.0f} minutes on {counted(workers, 'quiet core')}")


def _used(bench: Workbench, experiments: Sequence[Experiment], scope: RunSize) -> dict[str, Origin]:
    names = {name for e in experiments for wave in in_order(e.steps(scope)) for s in wave for name in s.workloads}
    return {name: bench.origins[name] for name in bench.origins if name in names}


def _folder(out: Path) -> Path:
    folder = out / KEPT
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out {out} cannot be made: {error.strerror}") from None
    return folder


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    return f"{os.cpu_count()} cores, {memory:.0f} GiB"


def _commit() -> str:
    """Return the commit of the source, if it lies in a repository."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
