"""No policy can reach the true run time: tests that try.

A function in the same process could always walk the interpreter's stack or all of its objects. What is promised is that
nothing a policy is given leads to the truth, that it cannot change the run by changing what it was given, and that no
rule and no predictor of the core knows more of a job than has happened.
"""

import ast
import dataclasses
import gc
import types
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import BACKFILLS, cases

import rltune
from rltune.cluster import Cluster
from rltune.jobs import Jobs
from rltune.policy import QueueView

KERNEL = Path(rltune.__file__).parent / "kernel"
MARKS = 7919.123 + np.arange(40) * 1.0078125  # durations that occur nowhere else
CLUSTER = Cluster.uniform(nodes=2, gpus=4)


def marked(marks: np.ndarray = MARKS) -> Jobs:
    n = len(marks)
    labels = [f"u{i % 3}" for i in range(n)]
    return Jobs.from_arrays(
        *(np.arange(n) * 10.0, marks, 1 + np.arange(n) % 4), limit_s=9999.0, user=labels, vc=None, name=labels
    )


def reachable(root: object) -> list[object]:
    """Follow every reference from an object: attributes, slots, closures, bases of arrays, what the collector knows."""
    found, todo = {}, [root]
    while todo:
        thing = todo.pop()
        if id(thing) in found or isinstance(thing, types.ModuleType | type | str | bytes | int | float):
            continue
        found[id(thing)] = thing
        todo += _led_to(thing)
    return list(found.values())


def _led_to(thing: object) -> list[object]:
    led = [r for r in gc.get_referents(thing) if not _is_code(r)]
    led += vars(thing).values() if hasattr(thing, "__dict__") else []
    led += [getattr(thing, slot) for slot in getattr(type(thing), "__slots__", ()) if hasattr(thing, slot)]
    if dataclasses.is_dataclass(thing):
        led += [getattr(thing, f.name) for f in dataclasses.fields(thing)]
    if isinstance(thing, np.ndarray):
        led += [thing.base, *(thing.tolist() if thing.dtype == object else [])]
    return [x for x in led if x is not None]


def _is_code(thing: object) -> bool:
    """Tell globals of a module, which lead everywhere and to nothing of this run, from data."""
    return isinstance(thing, dict) and "__builtins__" in thing


def numbers(things: list[object]) -> np.ndarray:
    arrays = [np.asarray(t, dtype=np.float64).ravel() for t in things if _is_numeric(t)]
    return np.concatenate(arrays) if arrays else np.zeros(0)


def _is_numeric(thing: object) -> bool:
    if isinstance(thing, np.ndarray):
        return thing.dtype.kind in "fiu"
    return isinstance(thing, list | tuple) and all(isinstance(x, int | float) for x in thing)


def run(policy, jobs: Jobs, **settings):
    return rltune.simulate(jobs, CLUSTER, policy=policy, **{"estimator": "user", "backfill": "easy"} | settings)


def test_the_search_would_find_it():
    """The search itself works: from the table, and from a view of a column, it does find the marks."""
    jobs = marked()
    assert np.isin(MARKS, numbers(reachable(jobs))).all()
    assert np.isin(MARKS, numbers(reachable([jobs.duration_s[3:5]]))).all()
    assert np.isin(MARKS, numbers(reachable(lambda: jobs))).all()


@pytest.mark.parametrize("estimator", ["user", "history"])
def test_nothing_leads_from_the_view_to_the_truth(estimator):
    """Neither the durations are there nor the ends that they make."""
    found = []

    def look(queue):
        found.append(numbers(reachable(queue)))
        return queue.submit_s

    schedule = run(look, marked(), estimator=estimator)
    seen = np.concatenate(found)
    truth = np.concatenate([MARKS, schedule.end_s])
    assert len(found) > 40
    assert not np.isin(truth, seen).any()


def test_no_array_of_the_view_is_a_window_on_something_larger():
    """Every array owns its memory, and nobody but the view holds it."""
    holders = []

    def look(queue):
        for column in vars(queue).values():
            if isinstance(column, np.ndarray):
                assert column.base is None
                assert column.flags.owndata
                if queue.now_s == 200.0:  # asking for holders takes long
                    holders.extend(type(r) for r in gc.get_referrers(column) if not isinstance(r, types.FrameType))
        return queue.submit_s

    run(look, marked())
    assert holders
    assert set(holders) <= {QueueView, dict}


def test_changing_what_it_was_given_changes_nothing():
    """A policy that spoils its view after it has scored gets the schedule of one that does not."""

    def honest(queue):
        return queue.gpus * queue.estimate_s

    def vandal(queue):
        scores = honest(queue)
        for column in vars(queue).values():
            if isinstance(column, np.ndarray):
                column[...] = 0
            elif isinstance(column, list):
                column.clear()
        vars(queue).clear()
        return scores

    jobs = marked()
    before = [np.array(c) for c in vars(jobs).values() if isinstance(c, np.ndarray)]
    for estimator in ("user", "history"):
        assert (
            run(vandal, jobs, estimator=estimator).start_s.tolist()
            == run(honest, jobs, estimator=estimator).start_s.tolist()
        )
    after = [c for c in vars(jobs).values() if isinstance(c, np.ndarray)]
    assert all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(before, after, strict=True))


def test_scores_kept_and_changed_later_change_nothing():
    """The engine copies the scores that it is given."""
    kept = []

    def hoarder(queue):
        for old in kept:
            old[...] = -1e9
        scores = queue.submit_s * 1.0
        kept.append(scores)
        return scores

    assert run(hoarder, marked()).start_s.tolist() == run("fcfs", marked()).start_s.tolist()


# the rules of the core


def _reads(tree: ast.AST, attribute: str) -> list[str]:
    """Name the functions that read an attribute (or a field by that name); `table["x"] = ...` reads nothing."""
    written = {
        id(node.slice) for node in ast.walk(tree) if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
    }
    return [
        function.name
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if (isinstance(node, ast.Attribute) and node.attr == attribute and isinstance(node.ctx, ast.Load))
        or (isinstance(node, ast.Constant) and node.value == attribute and id(node) not in written)
    ]


def _readers(name: str) -> dict[str, list[str]]:
    """Name the functions of the core that read a column, by file."""
    found = {f.name: _reads(ast.parse(f.read_text()), name) for f in sorted(KERNEL.rglob("*.py"))}
    return {file: functions for file, functions in found.items() if functions}


def test_one_kernel_reads_the_duration():
    """Only where a job starts or a spell of it is cut short, to know when it will end; and what is then left, too."""
    assert _readers("duration") == {
        "prepare.py": ["_turns"],
        "running.py": ["start_in_turn"],
        "spells.py": ["end_spell"],
    }
    assert _readers("length") == {"spells.py": ["begin_spell"]}


def test_one_function_takes_it_from_the_table():
    """Only where the core's own table of jobs is made; no policy names it."""
    assert _readers("duration_s") == {"prepare.py": ["_make_world"]}
    for file in (KERNEL.parent / "policy").glob("*.py"):
        assert "duration_s" not in file.read_text()


POLICIES = ("fcfs", "sjf", "srf", "saf", "wfp3", "unicep", "f1", "qssf", "multifactor", "multifactor-paper")


@given(
    cases(without=("outages", "speeds")),
    st.sampled_from(POLICIES),
    st.sampled_from(BACKFILLS),
    st.sampled_from(("history", "given")),
    st.integers(0, 5),
    st.randoms(use_true_random=False),
)
def test_no_decision_depends_on_a_job_that_has_not_ended(case, policy, backfill, estimator, moment, random):
    """Exchange the durations of all that has not ended at some time: whatever was decided before stays as it was."""
    guess = case.estimate_s if estimator == "given" else estimator
    first = rltune.simulate(case.jobs, case.cluster, policy=policy, backfill=backfill, estimator=guess)
    ends = np.unique(first.end_s[first.ran])
    cut = ends[min(moment, len(ends) - 1)] if len(ends) else 0.0
    unknown = ~(first.end_s < cut)
    running = unknown & (first.start_s < cut)
    others = case.jobs.duration_s[unknown]
    random.shuffle(others)
    duration = case.jobs.duration_s.copy()
    duration[unknown] = others
    duration[running] += np.maximum(0.0, cut - first.start_s[running])  # they still have not ended
    jobs = case.jobs.with_columns(duration_s=duration)
    second = rltune.simulate(jobs, case.cluster, policy=policy, backfill=backfill, estimator=guess)
    early = first.start_s < cut
    assert (second.start_s[early] == first.start_s[early]).all()
    assert not (second.start_s[~early] < cut).any()
