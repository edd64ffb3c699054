"""Whoever replays a history counts waits from when jobs could first start, by whichever function it is asked."""

import numpy as np
import pytest

from rltune import compare, evaluate, simulate
from rltune.engine.parse_pipeline import read_pipeline
from rltune.estimate import get_estimator
from rltune.evaluation.transfer import Ground, transfer
from rltune.evaluation.turns_worth import turns_worth
from rltune.forecast.calibrate_forecast import calibrate
from rltune.learn.cma_es import EvolveSettings
from rltune.learn.evolve import EvolvePlan, evolve_policy
from rltune.present.of_run import replay
from rltune.whatif import Target, parse_edit, solve, what_if
from rltune.whatif.edits import Site

LOOK = {"size": 60, "every": 60, "contended_s": 1.0, "holdout": 0.25}
PIPELINE = read_pipeline("fcfs + easy")
ORACLE = get_estimator("oracle")


@pytest.fixture(scope="module")
def held(trace):
    """Return jobs of which every second was held, some for so long that others that came later could start before."""
    jobs = trace.window(0, 600)
    begin = jobs.submit_s + np.where(np.arange(len(jobs)) % 2, 20_000.0, 0.0)
    return jobs.with_columns(recorded_eligible_s=begin, recorded_start_s=begin + 5)


def evolved(jobs, cluster):
    steps = EvolveSettings(generations=1, tried=4, windows=2, every=1, threads=1)
    drawn = {"pool": 4, "size": 60, "held_windows": 1, "contended_s": 1.0, "holdout": 0.25}
    return evolve_policy([(jobs, cluster)], EvolvePlan(estimators=("oracle",), evolve=steps, **drawn)).model.sha256


def taught(jobs, cluster):
    pytest.importorskip("torch", reason="torch is not installed")
    from learn.small_training import settings

    from rltune.learn.train import Trainer

    made = Trainer(jobs, cluster, settings())
    return [made.jobs.submit_s.tolist(), *(window.jobs.submit_s.tolist() for window in made.held)]


def environment(jobs, cluster):
    pytest.importorskip("gymnasium", reason="gymnasium is not installed")
    from rltune.learn.env import windows_of

    return [window.jobs.submit_s.tolist() for window in windows_of(jobs, cluster)]


ASKED = {
    "simulate": lambda jobs, on: simulate(jobs, on, estimator="oracle").wait_s.tolist(),
    "compare": lambda jobs, on: compare(jobs, on, ["fcfs", "saf"], estimator="oracle", windows="2x100").to_json(),
    "evaluate": lambda jobs, on: str(evaluate(jobs, on, ["saf"], estimator="oracle", **LOOK).to_dict()),
    "transfer": lambda jobs, on: str(transfer(["saf"], [Ground("m", jobs, on)], ["sjf"], **LOOK).to_dict()),
    "turns": lambda jobs, on: repr(turns_worth(jobs, on, (1.0,), (10.0,), 60.0, "oracle", **LOOK)),
    "what_if": lambda jobs, on: str(what_if(Site(jobs, on, PIPELINE), [parse_edit("load=+20%")], ORACLE)),
    "solve": lambda jobs, on: str(solve(Site(jobs, on, PIPELINE), Target.parse("mean wait < 5m"), "4", ORACLE)),
    "replay": lambda jobs, on: sorted(replay(jobs, on, PIPELINE, ORACLE, 30_000.0).names),
    "forecast": lambda jobs, on: repr(calibrate(jobs, on, PIPELINE, ORACLE, 40_000.0, 2, rolls=2, workers=1)),
    "evolve": evolved,
    "train": taught,
    "environment": environment,
}


@pytest.mark.parametrize("asked", ASKED)
def test_jobs_come_when_they_could_first_start(held, cluster, asked):
    """The answer is the one for a history that tells nothing else; without what is recorded it is another."""
    told = ASKED[asked](held, cluster)
    assert told == ASKED[asked](held.from_when_ready(), cluster)
    assert told != ASKED[asked](held.with_columns(recorded_eligible_s=held.submit_s), cluster)
