"""An estimator of a user's own: from a file, or from an installed package; and every way in which it can be wrong."""

import pytest
from own_package import install

import rltune
from rltune.errors import InputError
from rltune.estimate import get_estimator
from rltune.evaluation import WindowSpec

CLUSTER = rltune.Cluster.uniform(1, 1)
JOBS = rltune.Jobs.from_arrays([5, 0, 1], [10, 20, 30], 1, limit_s=[100, 90, 80])
CODE = """
class Half:
    name = "half the limit"

    def estimate(self, jobs, seed):
        return jobs.limit_s / 2
"""


def own(folder, code=CODE, name="Half"):
    (folder / "mine.py").write_text(code)
    return f"{folder / 'mine.py'}:{name}"


def test_a_class_in_a_file_estimates(tmp_path):
    """In the order of submit times; the schedule has them in the order given."""
    made = rltune.simulate(JOBS, CLUSTER, estimator=own(tmp_path))
    assert made.estimate_s.tolist() == [50, 45, 40]
    assert made.settings.estimator == "half the limit"


def test_an_object_in_a_file_estimates(tmp_path):
    assert get_estimator(own(tmp_path, CODE + "half = Half()\n", "half")).name == "half the limit"


def test_an_installed_package_brings_one(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "rltune.estimators", "halved", CODE, "Half")
    assert rltune.simulate(JOBS, CLUSTER, estimator="halved").estimate_s.tolist() == [50, 45, 40]
    with pytest.raises(InputError, match="did you mean halved"):
        get_estimator("halvd")


def test_it_is_taken_by_compare_and_evaluate(trace, cluster, tmp_path):
    spec = own(tmp_path, CODE.replace("jobs.limit_s / 2", "jobs.gpus * 60.0"))
    made = rltune.compare(trace.window(0, 80), cluster, ["fcfs", "saf"], estimator=spec)
    assert made.runs[0].schedule.settings.estimator == "half the limit"
    how = {"holdout": 0.25, "size": 60, "every": 60, "contended_s": 30.0}
    assert rltune.evaluate(trace, cluster, ["saf"], estimator=spec, **how).estimator == "half the limit"


def test_it_is_taken_by_several_workers(trace, cluster, tmp_path):
    spec = own(tmp_path, CODE.replace("jobs.limit_s / 2", "jobs.gpus * 60.0"))
    made = [rltune.compare(trace.window(0, 40), cluster, ["saf", "fcfs"], estimator=spec, workers=n) for n in (1, 2)]
    assert made[0].standings == made[1].standings


def test_one_that_learns_starts_warm_in_several_workers(trace, cluster, tmp_path):
    code = CODE.replace("jobs.limit_s / 2", "jobs.gpus * (1.0 if self.before is None else len(self.before) + 1.0)")
    code += "    before = None\n    def after(self, before):\n        made = Half()\n"
    spec = own(tmp_path, code + "        made.before = before\n        return made\n")
    how = {"windows": WindowSpec(count=2, size=30), "estimator": spec, "warm": True}
    made = [rltune.compare(trace, cluster, ["saf", "fcfs"], **how, workers=n) for n in (1, 2)]
    assert made[0].standings == made[1].standings
    assert made[0].runs[-1].schedule.estimate_s.max() > 8


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("return jobs.limit_s[:1]", "estimator half the limit: 1 estimates are given for 3 jobs"),
        ("return -jobs.limit_s", "an estimate is negative or not a finite number of seconds"),
        ("return jobs.limit_s * float('nan')", "an estimate is negative or not a finite"),
        ("return None", "are given for 3 jobs|not one number of seconds a job"),
        ("return ['long'] * len(jobs)", "not one number of seconds a job"),
        ("raise KeyError('oh')", "estimator half the limit failed: KeyError: 'oh'"),
    ],
)
def test_what_it_gives_is_checked(tmp_path, body, why):
    with pytest.raises(InputError, match=why):
        rltune.simulate(JOBS, CLUSTER, estimator=own(tmp_path, CODE.replace("return jobs.limit_s / 2", body)))


@pytest.mark.parametrize(
    ("code", "name", "why"),
    [
        ("Half = 3", "Half", "it needs a name and a method estimate"),
        ("class Half:\n    pass", "Half", "it needs a name and a method estimate"),
        ("class Half:\n    def __init__(self, share): pass", "Half", "cannot be made: TypeError"),
        (CODE, "Third", "holds no 'Third'"),
    ],
)
def test_what_is_no_estimator_is_said(tmp_path, code, name, why):
    with pytest.raises(InputError, match=f"^estimator .*{why}"):
        get_estimator(own(tmp_path, code, name))
