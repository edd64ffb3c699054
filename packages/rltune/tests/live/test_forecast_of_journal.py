"""What a journal holds is drawn from as it is: whole jobs, in their partitions, and truths that it tells of."""

from dataclasses import replace

import numpy as np
import pytest
from live_cases import NOW, MemoryCluster, job, nodes, running, settings, snapshot

from rltune.errors import InputError
from rltune.forecast import forecast
from rltune.forecast.arrivals import Arrivals
from rltune.forecast.run_time_draws import RunTimes
from rltune.live.calibrate_on_journal import calibrate_on_journal, tried_cycles
from rltune.live.controller import Controller
from rltune.live.decide.decide import Known, Situation
from rltune.live.journal.ended import Ended, table
from rltune.live.journal.store import Journal
from rltune.live.pinned_pipeline import pin_pipeline
from rltune.live.present_of_slurm import present_of

SHADOW = settings(mode="shadow")


def ended(n, partition):
    """Make jobs of a partition that came one after the other and ran for ten minutes."""
    times = [{"submit_s": NOW - 600.0 * (n - i), "start_s": NOW - 600.0 * (n - i)} for i in range(n)]
    made = (
        job(1000 + i, 1, 30, state="COMPLETED", partitions=(partition,), end_s=one["start_s"] + 600.0, **one)
        for i, one in enumerate(times)
    )
    return table([Ended(one).row() for one in made])


def test_jobs_to_come_find_the_nodes_of_their_partition():
    """Nobody waits for partition sla now; jobs that come to it, and requests, may use its nodes all the same."""
    look = snapshot([running(1, "n0", 4), job(2, 8)])
    here = present_of(Situation(look), SHADOW, pin_pipeline(SHADOW), Known(history=ended(20, "sla")))
    later = Arrivals.of(here).draw(np.random.default_rng(0), 7200.0, np.full(len(here.jobs), 60.0))
    admitted = {name for group in here.cluster.groups for name in group.vc}
    came = {name for name in later.jobs.vc.to_list() if name is not None}
    assert came
    assert came <= admitted
    assert forecast(here, rolls=3).by_job["2"].started == 1.0


def test_pieces_of_a_running_job_end_together_and_are_known_as_one_job():
    """Its nodes are rows of their own in the core; history knows a job of 8 GPUs, and one draw ends both."""
    both = {"node_names": ("n0", "n1"), "gpus_by_node": (4, 4), "nodes": 2}
    look = snapshot([running(1, "n0", 8, **both), job(2, 1)])
    here = present_of(Situation(look), SHADOW, pin_pipeline(SHADOW), Known(history=ended(20, "gpu")))
    rows = here.seats.rows
    assert here.jobs.gpus[rows].tolist() == [4, 4]
    assert here.recorded.gpus[rows].tolist() == [8, 8]
    drawn = RunTimes.of(here).draw(np.random.default_rng(0))
    assert drawn[rows[0]] == drawn[rows[1]]


def test_forecasts_are_tried_on_the_journal(tmp_path):
    """The truth is the start that the journal saw; one that still waits has none, and an empty journal is refused."""
    store = Journal.create(tmp_path / "journal.db")
    cluster = MemoryCluster(snapshot([running(1, "n0", 4, 60), job(2, 4), job(3, 4)], nodes(4)))
    controller = Controller(cluster, store, SHADOW)
    with pytest.raises(InputError, match="in no earlier cycle"):
        calibrate_on_journal(store, 4)
    controller.cycle()
    cluster.pass_time(60.0)
    controller.cycle()
    later = NOW + 3000.0
    ran = replace(running(2, "n0", 4, 60), start_s=later - 100.0)
    cluster.now = snapshot([ran, job(3, 4)], nodes(4), at=later)
    controller.cycle()
    (trial,) = tried_cycles(store, [1], rolls=4)
    assert trial.jobs == ("2", "3")
    assert trial.truth.tolist() == [later - 100.0, np.inf]
    assert trial.known_s == later
    assert calibrate_on_journal(store, 2, rolls=4).moments == 2
    store.close()
