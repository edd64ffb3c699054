"""The controller on every release of Slurm that is here: what it means is what Slurm holds, and all is given back."""

import pytest
from live_cases import settings
from real_slurm import ThroughRest, require_rest
from typer.testing import CliRunner

from rltune.cli import app
from rltune.live.clock import SystemClock
from rltune.live.controller import Controller
from rltune.live.decide.ranking import by_slurm
from rltune.live.give_back import GiveBack
from rltune.live.journal.packing import unpack_decision
from rltune.live.journal.store import Journal
from rltune.live.see.backend import ChangeKind
from rltune.live.see.ownership import LeverError


@pytest.fixture(params=["commands", "slurmrestd"])
def reached(testbed_of_any_release, request):
    """A Slurm, by its commands and by its slurmrestd."""
    return testbed_of_any_release if request.param == "commands" else ThroughRest(testbed_of_any_release)


@pytest.fixture
def crowded(testbed_of_any_release):
    """A Slurm whose K80 are taken, with four kinds of jobs that wait for them."""
    bed = testbed_of_any_release
    k80 = {"gpus": 2, "gpu_type": "k80"}
    holder = bed.submit(600, **k80, nodes=2, limit_min=60)
    bed.wait_for("a start", lambda: bed.job(holder)["job_state"] == "RUNNING")
    for minutes in (50, 40, 30):
        bed.submit(600, **k80, limit_min=minutes)
    bed.submit(600, "--array=1-199:2%3", **k80, limit_min=20)
    bed.submit(600, "--hold", **k80, limit_min=10)
    bed.submit(600, "--exclusive", **k80, limit_min=45)
    by_hand = bed.submit(600, **k80, limit_min=59)
    bed.run("scontrol", "update", f"JobId={by_hand}", "Priority=7654321")
    bed.waiting_jobs()  # newer releases make a job eligible a second after it came, and sprio is silent until then
    return bed


def standing(bed):
    """Return everything a controller could have changed, as Slurm has it."""
    return {
        job.id: (job.priority, job.site_factor, job.nice, job.excluded_nodes, job.required_nodes)
        for job in bed.waiting_jobs()
    }


def test_what_is_meant_is_what_slurm_holds_and_all_is_given_back(crowded, reached, tmp_path):
    """Arrays, holds and a human's own priority among the waiting, by Slurm's commands and by slurmrestd."""
    before, slurm = standing(crowded), reached.backend()
    steer = {"steer": "off"} if ChangeKind.EXCLUDE_NODES in slurm.cannot() else {}
    acting = Controller(slurm, Journal.create(tmp_path / "j.db"), settings(**steer), SystemClock())
    report = acting.cycle()
    assert (report.outcome, report.refused, report.acting) == ("ok", 0, True)
    assert report.changes >= 3
    if isinstance(reached, ThroughRest):  # by it, a priority that a human has set is known after the first write
        acting.cycle()
    meant = [w.job for w in unpack_decision(acting.journal.cycle(0).decision).waiting if w.competes]
    assert [job.id for job in sorted(reached.waiting_jobs(), key=by_slurm)][: len(meant)] == meant
    assert acting.cycle().changes == 0
    assert acting.release() == 0
    assert standing(crowded) == before


def test_a_record_is_given_back_the_way_it_was_written(crowded, tmp_path):
    """Numbers written as Nice are not seen by Slurm's commands: these refuse, and leave record and numbers alone."""
    require_rest(crowded)
    rest = crowded.rest_backend()
    acting = Controller(rest, Journal.create(tmp_path / "j.db"), settings(steer="off"), SystemClock())
    acting.cycle()
    numbers = standing(crowded)
    with pytest.raises(LeverError, match=r"is of numbers written as Nice; .* through slurmrestd"):
        GiveBack(crowded.backend(), by_force=True)()
    other = Controller(crowded.backend(), Journal.create(tmp_path / "k.db"), settings(), SystemClock(), take_over=True)
    with pytest.raises(LeverError, match="numbers written as Nice"):
        other.run()
    assert standing(crowded) == numbers
    assert GiveBack(rest, by_force=True)().all_back
    assert {job.nice for job in crowded.backend().observe().pending} == {0}


def test_the_command_looks_and_says_what_it_would_do(crowded, tmp_path):
    """`rltune control` as an operator calls it, which finds the testbed's own Slurm."""
    words = ["control", "--once", "--mode", "advise", "--policy", "saf", "--testbed", str(crowded.folder)]
    done = CliRunner().invoke(app, [*words, "--journal", str(tmp_path / "j.db")])
    assert done.exit_code == 0, done.output
    assert "scontrol update JobId=" in done.stdout
