import math
from dataclasses import replace

from live_cases import NOW, job

from rltune import read_trace, trace
from rltune.live.journal.ended import Ended, ran, table

DONE = replace(job(7, 4, 60), state="TIMEOUT", start_s=NOW, end_s=NOW + 60, node_names=("a", "b"), gpu_types=("p100",))


def test_a_row_comes_back():
    """What is learnt from later is what was seen."""
    back = Ended.of_row(Ended(DONE, 123, acted=True).row())
    assert (back.priority, back.acted) == (123, True)
    for name in ("id", "submit_s", "start_s", "end_s", "limit_s", "gpus", "partitions", "user", "gpu_types", "state"):
        assert getattr(back.job, name) == getattr(DONE, name)
    nothing_told = replace(DONE, limit_s=math.nan, cpus=math.nan)
    assert math.isnan(Ended.of_row(Ended(nothing_told).row()).job.limit_s)


def test_history_is_a_trace_like_any_other(tmp_path):
    """It is written, read back and trained on as a table of jobs; runs of a requeued job are told apart."""
    again = replace(DONE, start_s=NOW + 500, end_s=NOW + 501, state="COMPLETED")
    jobs = table([Ended(DONE).row(), Ended(again).row()])
    trace.write(jobs, tmp_path / "h.csv")
    back = read_trace(tmp_path / "h.csv")
    assert back.id.tolist() == ["7", "7.2"]
    assert back.duration_s.tolist() == [60.0, 1.0]
    assert back.nodes.tolist() == [2, 2]
    assert back.vc.to_list() == ["gpu", "gpu"]
    assert back.state.to_list() == ["timeout", "completed"]


def test_nobody_learns_from_a_job_that_never_ran():
    """Cancelled before it started, or still running: no run time."""
    assert ran(DONE)
    assert not ran(replace(DONE, start_s=math.nan))
    assert not ran(replace(DONE, end_s=DONE.start_s))
    assert not ran(replace(DONE, state="RUNNING"))


def test_an_empty_history_is_an_empty_table():
    """Nothing has ended yet."""
    assert len(table([])) == 0
