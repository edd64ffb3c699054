"""Who may hold a lock: whoever is not seen to be dead, and nobody for ever."""

import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from rltune.live import holder as module
from rltune.live.holder import this_process, why_dead
from rltune.live.see.record_text import Holder, Lock

NOW = 1_700_000_000.0
NOBODY = 2**22 + 1  # no process has such a number


@pytest.fixture
def me():
    return this_process()


def held_by(holder, silent_s=10.0):
    return Lock(holder, ("gpu",), NOW - 5000, NOW - silent_s, 600.0)


def test_two_controllers_of_one_process_are_two(me):
    """A process lives as long as it does; only one's own lock is one's own."""
    other = this_process()
    assert replace(other, token="") == replace(me, token="")
    assert why_dead(held_by(other), NOW, me) == ""
    assert why_dead(held_by(me), NOW, me) == "it is our own"


def test_a_process_of_this_place_is_looked_for(me):
    """Gone, or its number is another one's by now."""
    assert why_dead(held_by(replace(me, pid=NOBODY, token="x")), NOW, me) == f"process {NOBODY} on {me.host} is gone"
    assert "is another one by now" in why_dead(held_by(replace(me, born=me.born - 1, token="x")), NOW, me)


def test_a_process_that_nobody_has_buried_is_dead(me):
    """A zombie has its number and its time of birth still."""
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
        _, born = module._told_of(process.pid)
        lock = held_by(replace(me, pid=process.pid, born=born, token="x"))
        assert why_dead(lock, NOW, me) == ""
        process.kill()
        deadline = time.monotonic() + 60
        while module._told_of(process.pid)[0] != "Z":
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert "has ended" in why_dead(lock, NOW, me)


def test_a_process_hidden_by_the_kernel_is_not_taken_for_dead(me, monkeypatch):
    """The unit sees no processes of other accounts (ProtectProc=invisible); a signal tells that they are there."""
    monkeypatch.setattr(module, "_told_of", lambda _: ("", 0))
    assert why_dead(held_by(replace(me, token="x")), NOW, me) == ""

    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    assert why_dead(held_by(replace(me, pid=NOBODY, token="x")), NOW, me) == ""


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"space": "pid:[7]"},  # another container of this machine, with its own process of this number
        {"machine": "1" * 32},  # another machine
        {"machine": "", "host": "other"},
        {"booted_s": 1_600_000_000.0},  # this machine before a restart, or a clone of it
        {"booted_s": 0.0},  # as an earlier version wrote it
        {"space": ""},
    ],
    ids=str,
)
def test_who_cannot_be_seen_is_dead_by_silence_alone(me, elsewhere):
    """Though no process of this number is here."""
    other = replace(me, pid=NOBODY, token="x", **elsewhere)
    assert why_dead(held_by(other), NOW, me) == ""
    assert "has not been heard of for 601 s" in why_dead(held_by(other, 601.0), NOW, me)


def test_a_host_that_was_renamed_is_the_same_machine(me):
    """By the name that it keeps; where it has none, only silence tells."""
    before = replace(me, machine="1" * 32)
    left = replace(before, pid=NOBODY, token="x")
    assert "is gone" in why_dead(held_by(left), NOW, replace(before, host="renamed"))
    assert why_dead(held_by(replace(left, machine="")), NOW, replace(me, machine="", host="renamed")) == ""


def test_a_holder_that_lives_and_hangs_is_taken_over(me):
    """No lock is for ever: whoever works is heard of four times in a lease."""
    lives = replace(me, token="x")
    assert why_dead(held_by(lives, 599.0), NOW, me) == ""
    assert "has not been heard of" in why_dead(held_by(lives, 601.0), NOW, me)


def test_a_time_in_the_future_keeps_no_lock_for_ever(me):
    """It is of a clock that was wrong."""
    other = Holder("elsewhere", 4711)
    assert why_dead(held_by(other, -599.0), NOW, me) == ""
    assert "by a clock that was wrong" in why_dead(held_by(other, -86_400.0), NOW, me)


def test_a_machine_starts_once(me):
    """Asked twice, it is the same start."""
    time.sleep(0.3)
    assert abs(this_process().booted_s - me.booted_s) < module._SAME_BOOT_S
