"""The cheap rows of the table of faults, on a real Slurm; `benchmarks/rltune/faults.py` has them all."""

import signal
import subprocess
from collections import Counter

import pytest

from rltune.lab.faults import scene
from rltune.lab.faults.fault_run import run_fault
from rltune.lab.faults.fault_table import FAULTS
from rltune.lab.faults.invariant import ran_once
from rltune.lab.faults.scene import Scene
from rltune.lab.faults.spell_log import SpellLog, keys_of

CHEAP = [fault for fault in FAULTS if fault.cheap]


@pytest.mark.parametrize("fault", CHEAP, ids=[fault.name for fault in CHEAP])
def test_what_must_be_so_holds_after_a_fault(testbed, fault):
    """Every job ran once, nothing is left, and what was said is what Slurm holds."""
    outcome = run_fault(testbed, fault, seed=7)
    assert outcome.violations == (), outcome.said
    assert outcome.jobs >= 10


def test_every_fault_has_a_name_of_its_own():
    """Results are counted by it."""
    assert max(Counter(fault.name for fault in FAULTS).values()) == 1


def test_a_release_that_takes_too_long_is_ended(monkeypatch):
    """It would write to the Slurm of the next scene."""
    stage = object.__new__(Scene)
    started = []

    def start():
        started.append(subprocess.Popen(["sleep", "600"]))
        return started[0]

    monkeypatch.setattr(stage, "start_release", start, raising=False)
    monkeypatch.setattr(scene, "_PATIENCE_S", 0.01)
    with pytest.raises(subprocess.TimeoutExpired):
        stage.release()
    assert started[0].poll() == -signal.SIGKILL


class Told:
    """As much of a scene as says how often jobs ran."""

    excused: frozenset[str] = frozenset()

    def __init__(self, tmp_path, lines, expected):
        (tmp_path / "spells").write_text("".join(f"{line}\n" for line in lines))
        self.spells, self.expected = SpellLog(tmp_path / "spells"), expected


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        (["1_0 start", "1_0 end"], []),
        ([], ["job 1_0 came to its end 0 times"]),
        (["1_0 start"], ["job 1_0 came to its end 0 times"]),
        (["1_0 start", "1_0 start", "1_0 end"], ["job 1_0 started 2 times and nobody knows why"]),
        (["1_0 start", "1_0 end", "9_0 start"], ["job 9_0 ran and was never submitted"]),
        (
            ["1_0 start", "1_0 end"] * 2,
            ["job 1_0 came to its end 2 times", "job 1_0 started 2 times and nobody knows why"],
        ),
    ],
)
def test_a_job_that_did_not_run_exactly_once_is_found(tmp_path, lines, wrong):
    """Lost, run twice, or nobody's."""
    assert list(ran_once(Told(tmp_path, lines, {"1_0": ""}))) == wrong


def test_a_second_spell_with_a_cause_is_no_fault(tmp_path):
    """One that was requeued starts twice and ends once."""
    assert not list(ran_once(Told(tmp_path, ["1_0 start", "1_0 start", "1_0 end"], {"1_0": "requeued"})))


def test_the_tasks_of_an_array_are_named_as_they_name_themselves():
    """A job without tasks is its own task 0."""
    assert keys_of(7, 2) == ("7_1", "7_2")
    assert keys_of(7) == ("7_0",)
