"""The core is compiled by numba when it is first used and kept on disk; whoever waits for that is told."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rltune.cli.console import say
from rltune.cli.terminal_progress import spinner

if TYPE_CHECKING:
    from rltune.engine.pipeline import Pipeline

NOTICE = "compiling the core, once (about a minute) ..."


def is_compiled(kernel: Any, source: str = "") -> bool:
    """Return whether a kernel's machine code for this numba and this processor is on disk.

    `source` stands in the types of the arguments that the code must be for. Plain Python (NUMBA_DISABLE_JIT=1) needs
    no machine code.
    """
    cache = getattr(kernel, "_cache", None)
    if cache is None:
        return True
    known = cache._cache_file._load_index()  # noqa: SLF001  numba offers no public way to ask
    this_processor = kernel.targetctx.codegen().magic_tuple()
    return any(processor == this_processor and source in str(signature) for signature, processor, *_ in known)


def compile_core(pipelines: "Iterable[Pipeline]" = ()) -> None:
    """Compile what these pipelines will need, if that has not been done, on the smallest workload."""
    from rltune.policy.base import Scored

    planned = list(pipelines)
    commit = any(p.commit for p in planned)
    own_policy = any(isinstance(p.policy, Scored) for p in planned)
    searches = any(bool(p.search) for p in planned)
    from rltune.kernel.backfill import scheduling_pass as decide
    from rltune.kernel.jit import SOURCE_HASH
    from rltune.kernel.rollout import event_loop as loop
    from rltune.kernel.rollout import order_search as search
    from rltune.kernel.rollout import rlscheduler_machine as committed

    needed: list[Any] = [committed.run_committed] if commit else [loop.run]
    if own_policy:
        needed += [loop.advance, decide.make_pass]
    if searches:
        needed += [search.search]
    source = SOURCE_HASH  # of all kernels; every compiled signature holds it
    if all(is_compiled(kernel, source) for kernel in needed):
        return
    say(NOTICE)
    with spinner("compiling"):
        _simulate_one_job(commit=commit)
        if own_policy:
            _simulate_one_job(own_policy=True)
        if searches:
            _search_once()


def _search_once() -> None:
    from rltune import Cluster, Jobs, simulate

    jobs = Jobs.from_arrays(submit_s=[0.0, 0.0, 0.0], duration_s=[1.0, 2.0, 3.0], gpus=[1, 2, 1])
    simulate(jobs, Cluster.uniform(nodes=1, gpus=2), policy="saf", search=2)


def _simulate_one_job(*, commit: bool = False, own_policy: bool = False) -> None:
    from rltune import Cluster, Jobs, simulate
    from rltune.policy.base import Scored

    jobs = Jobs.from_arrays(submit_s=[0.0], duration_s=[1.0], gpus=[1])
    policy = Scored("in order", lambda queue: queue.submit_s) if own_policy else "fcfs"
    simulate(jobs, Cluster.uniform(nodes=1, gpus=1), policy=policy, commit=commit).summary()
