"""`rltune reproduce` on a small made-up trace: all steps for real, in sizes that take seconds."""

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from rltune import InputError
from rltune.parallel import Here
from rltune.reproduce import code_hash, runner
from rltune.reproduce import perform_experiments as perform
from rltune.reproduce.catalogue import EXPERIMENTS, chosen, names
from rltune.reproduce.cells import PAPER, Ours, PaperCell, Section
from rltune.reproduce.drawing import Axes, Series, SpreadRow, lines, points, spreads
from rltune.reproduce.experiment import Experiment
from rltune.reproduce.held_out import Entry, HeldOutRun
from rltune.reproduce.lesson import Lesson
from rltune.reproduce.page import Reproduction, render_reproduction
from rltune.reproduce.paper import number
from rltune.reproduce.relative_gain import RelativeGain, seeds_of, window_gain
from rltune.reproduce.run_size import FULL, QUICK
from rltune.reproduce.steady import SteadyRun
from rltune.reproduce.step import Step, Workbench, in_order
from rltune.reproduce.workloads import find_origins, load_workload
from rltune.trials.intervals import Interval

TINY = replace(QUICK, epochs=1, windows=2, patience=1, every=512, synthetic_jobs=12_000)


def bench(folder, jobs=6_000):
    return Workbench(folder, find_origins(None, jobs))


def lesson(**more):
    size = {"epochs": 1, "windows": 2, "patience": 1}
    how = {"estimator": "oracle", "head": "global", "backfill": "none", "seed": 0}
    return Lesson(workload="philly", base="fcfs", objective="wait", **size, **{**how, **more})


def perform_quietly(out, only, scope=TINY, budget_s=math.inf):
    return perform.perform(
        out, None, scope, only, budget_s=budget_s, workers=1, tell=lambda _: None, say=lambda _: None
    )


@dataclass(frozen=True)
class Counted(Step):
    """A step that leaves a mark whenever it is made."""

    kind: ClassVar[str] = "counted"
    name: str
    after: tuple[Step, ...] = ()

    @property
    def told(self):
        return self.name

    @property
    def needs(self):
        return self.after

    def make(self, bench):
        with (bench.folder / "made").open("a", encoding="utf-8") as file:
            file.write(f"{self.name}\n")
        if self.name == "fails":
            raise InputError("as it should")
        return {"name": self.name}


class Few(Experiment):
    names = ("few",)
    title = where = "few"

    def __init__(self, *steps):
        self._steps = steps

    def steps(self, scope):  # noqa: ARG002
        return self._steps

    def section(self, made):  # noqa: ARG002
        return Section("few", "few", "few")


def made_in(folder):
    file = folder / "made"
    return file.read_text(encoding="utf-8").split() if file.exists() else []


def run(folder, *steps, budget_s=math.inf):
    told = []
    on = runner.Runner(bench(folder), TINY, Here(), 1, budget_s, told.append)
    done = on.run([Few(*steps)], lambda _: None)
    return done, told


def test_what_is_needed_comes_first_and_is_made_once(tmp_path):
    first = Counted("first")
    second, third = Counted("second", (first,)), Counted("third", (first,))
    assert [{s.name for s in wave} for wave in in_order((second, third))] == [{"first"}, {"second", "third"}]
    done, told = run(tmp_path, second, third)
    assert done
    assert made_in(tmp_path) == ["first", "second", "third"]
    assert [(t.done, t.steps) for t in told] == [(1, 3), (2, 3), (3, 3)]
    assert told[-1].left_s == 0
    run(tmp_path, second, third)
    assert made_in(tmp_path) == ["first", "second", "third"]


def test_a_step_that_fails_leaves_out_only_what_needs_it(tmp_path):
    """The others are made, why is said, nothing of the failed step is left, and the next run tries it again."""
    bad = Counted("fails")
    on = runner.Runner(bench(tmp_path), TINY, Here(), 1)
    assert on.run([Few(Counted("good"), Counted("never", (bad,)), Counted("last"))], lambda _: None)
    assert made_in(tmp_path) == ["good", "fails", "last"]
    assert set(on.failed.values()) == {"as it should"}
    assert {step.name for step in on.failed} == {"fails", "never"}
    assert sum(path.suffix == ".json" for path in tmp_path.iterdir()) == 2
    section = perform._section(Few(Counted("never", (bad,))), perform.Made(bench(tmp_path), TINY), on.failed)
    assert section.missing == ("fails: as it should",)
    run(tmp_path, bad)
    assert made_in(tmp_path)[-1] == "fails"


def test_when_the_time_is_over_the_rest_is_left_out(tmp_path):
    done, _ = run(tmp_path, Counted("one"), Counted("two"), budget_s=0.0)
    assert not done
    assert made_in(tmp_path) == ["one"]


def test_a_step_is_made_again_when_what_it_depends_on_changes(tmp_path, monkeypatch):
    step = HeldOutRun("philly", (Entry("fcfs"),), "oracle", "pool")
    before = bench(tmp_path).digest(step)
    assert bench(tmp_path).digest(step) == before
    assert bench(tmp_path, jobs=7_000).digest(step) != before
    assert bench(tmp_path).digest(replace(step, estimator="noisy")) != before
    of_one, of_other = (HeldOutRun("philly", (Entry(lesson(seed=s)),), "oracle", "pool") for s in (0, 1))
    assert bench(tmp_path).digest(of_one) != bench(tmp_path).digest(of_other)
    other = dict.fromkeys(bench(tmp_path).code, "other")
    assert replace(bench(tmp_path), code=other).digest(step) != before


def test_comments_do_not_count_but_code_does_and_so_does_what_it_imports(tmp_path, monkeypatch):
    package = tmp_path / "rltune"
    monkeypatch.setattr(
        code_hash, "_path", lambda name: path if (path := tmp_path / f"{name.replace('.', '/')}.py").is_file() else None
    )

    def hashed(first, second):
        for cached in (code_hash.code_hash, code_hash._imports, code_hash._syntax):
            cached.cache_clear()
        package.mkdir(exist_ok=True)
        (package / "a.py").write_text(first, encoding="utf-8")
        (package / "b.py").write_text(second, encoding="utf-8")
        return code_hash.code_hash("rltune.a")

    try:
        before = hashed('"""A."""\nfrom rltune.b import x\n', "x = 1\n")
        assert hashed('"""Other words."""\nfrom rltune.b import x  # why\n', "x = 1\n") == before
        assert hashed('"""A."""\nfrom rltune.b import x\n', "x = 2\n") != before
        assert hashed('"""A."""\nfrom rltune.b import x\ny = 1\n', "x = 1\n") != before
    finally:
        for cached in (code_hash.code_hash, code_hash._imports, code_hash._syntax):
            cached.cache_clear()


def test_lessons_windows_and_steady_state_for_real(tmp_path):
    """A training, windows of the held-out part, and a run in steady state; seeds of one training are averaged."""
    on = bench(tmp_path)
    lessons = [lesson(seed=seed) for seed in (0, 1)]
    assert [on(each) for each in lessons] == ["", ""]
    assert len(on.result(lessons[0])["log"]) == 2
    windows = HeldOutRun(
        "philly", (Entry("fcfs"), Entry("sjf"), *map(Entry, lessons)), "noisy", "global", size=256, every=128
    )
    on(windows)
    found = on.result(windows)
    group = Entry(lessons[0]).group
    assert len(seeds_of(found, group)) == 2
    gain = window_gain(found, "sjf + none, best-fit", "fcfs + none, best-fit", "wait")
    means = {label: np.mean(of["wait"]) for label, of in found["values"].items()}
    assert gain.percent == pytest.approx(100 * (1 - means["sjf + none, best-fit"] / means["fcfs + none, best-fit"]))
    end = SteadyRun(
        "philly-steady", (Entry("fcfs", "easy"), Entry("saf", "easy"), *(Entry(each, "easy") for each in lessons))
    )
    on(end)
    made = on.result(end)
    assert made["jobs"] > 100
    assert made["best_rule"]["wait"] in {"fcfs + easy, best-fit", "saf + easy, best-fit"}
    assert set(made["ratios"]) == {Entry(lessons[0], "easy").group}


def test_an_experiment_from_the_command_to_the_page(tmp_path):
    made = perform_quietly(tmp_path, ["cpu-trained"])
    assert made.complete
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert [cell["row"] for cell in results["sections"][0]["cells"]][-1] == "trained on Philly (synthetic)"
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "made up" in page
    assert "3.25" in page  # the paper's contradictions are listed


def test_a_report_without_time_says_what_is_left_out(tmp_path):
    made = perform_quietly(tmp_path, ["table7"], budget_s=0.0)
    assert not made.complete
    assert "not made in the time given" in made.sections[0].missing[0]
    assert "not complete" in " ".join(made.lead())


def test_every_experiment_can_be_told_before_anything_is_made(tmp_path):
    """Steps are named and priced, and sections render, without a single result."""
    empty = tuple(
        perform._section(e, perform.Made(bench(tmp_path), scope), {}) for e in EXPERIMENTS for scope in (QUICK, FULL)
    )
    page = render_reproduction(Reproduction(empty, QUICK, {}, "no machine", complete=False))
    assert page.count("<section") > len(EXPERIMENTS)
    assert len(names()) == len(set(names()))


def test_names_that_are_not_there(tmp_path):
    with pytest.raises(InputError, match="table9"):
        chosen(["table10"])
    with pytest.raises(InputError, match="is no folder"):
        find_origins(tmp_path / "none", 10)
    with pytest.raises(InputError, match="holds none of the traces"):
        find_origins(tmp_path, 10)


def test_a_thinned_trace_keeps_bursts_whole_and_asks_for_nine_tenths(tmp_path):
    """A trace that asks for several times what the slice gives; half as many jobs fit."""
    (tmp_path / "philly_jobs.csv").write_text(_crowded(), encoding="utf-8")
    origins = find_origins(tmp_path, 10)
    whole, thin = (load_workload(origins[name]).jobs for name in ("philly", "philly-steady"))
    assert 0 < len(thin) < len(whole)
    kept = np.isin(whole.id, thin.id)
    burst = np.repeat(np.arange(len(whole) // 4), 4)  # four jobs of one size at a time
    assert all(len(set(kept[burst == b])) == 1 for b in range(burst.max() + 1))


def test_vcs_by_lot_are_those_of_the_cluster_and_large_enough():
    """As likely as a VC has GPUs; the same every time; a job that fits some VC is never put into a smaller one."""
    work = load_workload(find_origins(None, 3_000)["helios-vc"])
    rooms = {name: sum(g.count * g.gpus for g in work.cluster.groups if name in g.vc) for name in work.jobs.vc.names}
    assert sorted(rooms) == ["vc1", "vc2", "vc3", "vc4", "vc5"]
    room = np.array([rooms[name] for name in work.jobs.vc.names])[work.jobs.vc.codes]
    assert (work.jobs.gpus <= room)[work.jobs.gpus <= max(rooms.values())].all()
    shares = np.bincount(work.jobs.vc.codes, minlength=5) / len(work.jobs)
    assert abs(shares[0] - rooms["vc1"] / sum(rooms.values())) < 0.05


def _crowded():
    rows = ["job_id,submit_time,submit_s,run_time_s,num_gpus,vc,passed,source"]
    for i in range(4000):
        at = 3600 * (i // 4) + i % 4
        rows.append(f"{i},2017-10-03 00:00:00,{at},40000,{8 if (i // 4) % 2 else 4},v,1,pcs")
    return "\n".join(rows) + "\n"


def test_a_gain_turns_a_ratio_around():
    assert str(RelativeGain.of_ratio(Interval(0.75, 0.5, 0.9), "wait")) == "25.0 % [10.0, 50.0]"
    assert str(RelativeGain.of_ratio(Interval(1.2, 1.1, 1.3), "utilisation")) == "20.0 % [10.0, 30.0]"
    assert str(RelativeGain.of_ratio(Interval(0.75, math.nan, math.nan), "wait")) == "25.0 %"


def test_ahead_of_the_paper_is_by_its_gain():
    key = "fig12.philly.fifo.wait"
    cell = PaperCell.of_key(key, "r", "c", {PAPER: Ours(RelativeGain(number(key).value))})
    assert cell.ahead(PAPER) is True
    assert PaperCell.of_key(key, "r", "c", {PAPER: Ours(RelativeGain(number(key).value - 0.1))}).ahead(PAPER) is False
    assert PaperCell.of_key(key, "r", "c", {}).ahead(PAPER) is None
    assert PaperCell("r", "c", {PAPER: Ours(RelativeGain(3.0))}).ahead(PAPER) is None


def test_drawings_are_whole_and_take_any_name():
    axes = Axes("<b>", "x", "y", log_x=True)
    line = Series("a & b", [1, 10, math.nan, 0], [1, 2, 3, 4])
    for svg in (lines(axes, [line]), points(axes, [line]), spreads(axes, [SpreadRow("a & b", [1, 2, 30.0])])):
        assert svg.startswith("<svg")
        assert svg.rstrip().endswith("</svg>")
        assert "<b>" not in svg
        assert "a &amp; b" in svg
        assert "nan" not in svg
    assert lines(Axes("nothing", "x"), []).startswith("<svg")


def test_results_of_a_repository_say_so():
    assert Path(perform.__file__).exists()
    assert perform._machine().endswith("GiB")
