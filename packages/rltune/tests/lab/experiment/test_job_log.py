"""What a job's own log tells: one run to the end, what was done again, and how long restarts took."""

import pytest

from rltune.lab.experiment.job_log import read_log

FACTOR = 60
WHOLE = "start 0.000 100.0\ncheckpoint 300.000 105.0\ncheckpoint 600.000 110.0\nend 600.000 110.0\n"
STOPPED = "start 0.000 100.0\ncheckpoint 300.000 105.0\nstop 420.000 107.0\n"
AGAIN = "start 300.000 120.0\nresume 300.000 121.0\ncheckpoint 600.000 126.0\nend 600.000 126.0\n"


def test_a_job_that_nobody_stopped_lost_nothing():
    """It started and ended once."""
    told = read_log(WHOLE, 600, FACTOR)
    assert (told.starts, told.ends, told.lost_s, told.problem) == (1, 1, 0, "")


def test_what_a_stop_cost_is_in_the_log():
    """Two minutes of work were done again, and the restart held the GPUs for a minute of the fast clock."""
    told = read_log(STOPPED + AGAIN, 600, FACTOR)
    assert told.redone_s == pytest.approx(120)
    assert told.restarts_s == pytest.approx(60)
    assert (told.starts, told.ends, told.problem) == (2, 1, "")


def test_a_job_stopped_within_its_restart():
    """What had passed of the restart is lost, and no work is."""
    told = read_log(STOPPED + "start 300.000 120.0\nstop 300.000 120.5\n" + AGAIN, 600, FACTOR)
    assert told.redone_s == pytest.approx(120)
    assert told.restarts_s == pytest.approx(30 + 60)


def test_a_job_that_was_killed_before_it_could_tell():
    """It worked on from its last line until Slurm stopped it."""
    killed = STOPPED.replace("stop 420.000 107.0\n", "")
    told = read_log(killed + AGAIN, 600, FACTOR, stops_s=(108.0,))
    assert told.redone_s == pytest.approx(180)
    assert told.problem == ""


@pytest.mark.parametrize(
    ("log", "problem"),
    [
        ("", "ended 0 times, with 0 s of 600 s done"),
        (STOPPED, "ended 0 times, with 420 s of 600 s done"),
        (WHOLE + WHOLE, "ended 2 times, with 600 s of 600 s done"),
        (WHOLE.replace("600", "500"), "ended 1 times, with 500 s of 600 s done"),
        (STOPPED + AGAIN.replace("start 300", "start 0", 1), "went on from 0 s, with 300 s saved"),
    ],
)
def test_whoever_did_not_run_to_its_end_exactly_once_is_found(log, problem):
    """Also one that forgot its checkpoint."""
    assert read_log(log, 600, FACTOR).problem == problem
