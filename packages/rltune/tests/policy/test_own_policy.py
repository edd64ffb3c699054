"""A user's own policy in one Python file, and every way in which it can be wrong."""

from pathlib import Path

import numpy as np
import pytest
from own_package import install

import rltune
from rltune.cluster import Cluster
from rltune.errors import InputError
from rltune.jobs import Jobs

EXAMPLE = Path(__file__).parents[2] / "examples" / "my_policy.py"
CLUSTER = Cluster.uniform(nodes=1, gpus=4)
JOBS = Jobs.from_arrays([0, 1, 2, 3], [10, 8, 4, 6], 4, user=["a", "b", None, "a"], vc=["v"] * 4)


def own(folder: Path, text: str, function: str = "score") -> str:
    """Write a policy, and give how it is called."""
    file = folder / "own.py"
    file.write_text(text)
    return f"{file}:{function}"


def starts(policy, jobs: Jobs = JOBS, **settings) -> list[float]:
    return rltune.simulate(jobs, CLUSTER, policy=policy, **{"estimator": "oracle", **settings}).start_s.tolist()


def test_the_example_halves_the_area_every_four_hours():
    """At 18001 job 1 (4 x 9000 s) has waited 5 h, so it counts 36000 / 2^(5/4) = 15136; job 2 counts 16000."""
    jobs = Jobs.from_arrays([0, 1, 18001], [18001, 9000, 4000], 4)
    assert starts(f"{EXAMPLE}:small_but_patient", jobs) == [0, 18001, 27001]
    assert starts("saf", jobs) == [0, 22001, 18001]


def test_the_example_names_itself_in_the_result():
    schedule = rltune.simulate(JOBS, CLUSTER, policy=f"{EXAMPLE}:small_but_patient", estimator="oracle")
    assert schedule.settings.policy == "my_policy:small_but_patient"


@pytest.mark.parametrize("backfill", ["none", "fit-first", "easy", "conservative", "shadow"])
def test_a_rule_written_in_python_is_the_rule_of_the_core(backfill, tmp_path):
    """GPUs x estimate from a file gives the very schedule of saf."""
    rng = np.random.default_rng(1)
    jobs = Jobs.from_arrays(np.sort(rng.uniform(0, 500, 80)), rng.uniform(1, 60, 80), rng.integers(1, 5, 80))
    policy = own(tmp_path, "def score(queue):\n    return queue.gpus * queue.estimate_s\n")
    assert starts(policy, jobs, backfill=backfill) == starts("saf", jobs, backfill=backfill)


def test_a_view_limits_what_it_is_shown():
    """With view = 2 the newest of the two oldest goes first: job 3 is not seen at 10."""
    sizes = []

    def newest_first(queue):
        sizes.append(len(queue))
        return -queue.submit_s

    assert starts(newest_first, view=2) == [0, 20, 10, 14]
    assert max(sizes) == 2
    assert starts(newest_first) == [0, 20, 16, 10]


def test_what_it_is_shown():
    """Columns of the waiting jobs, oldest first, and the nodes."""
    shown = []

    def look(queue):
        shown.append(queue)
        return queue.submit_s

    starts(look, JOBS.with_columns(limit_s=np.array([1.0, 2.0, 3.0, np.nan])))
    queue = next(q for q in shown if q.now_s == 3.0)
    assert queue.submit_s.tolist() == [1.0, 2.0, 3.0]
    assert queue.wait_s.tolist() == [2.0, 1.0, 0.0]
    assert queue.gpus.tolist() == [4, 4, 4]
    assert queue.user == ["b", None, "a"]
    assert queue.vc == ["v"] * 3
    assert queue.limit_s.tolist()[:2] == [2.0, 3.0]
    assert (queue.node_free_gpus.tolist(), queue.node_gpus.tolist()) == ([0], [4])


def test_a_list_of_numbers_will_do():
    assert starts(lambda queue: [-s for s in queue.submit_s]) == [0, 20, 16, 10]


def test_a_file_may_hold_dataclasses(tmp_path):
    """A module that is not registered could not define one."""
    text = (
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "@dataclass\n"
        "class Taste:\n"
        "    sign: float = -1.0\n"
        "def score(queue):\n"
        "    return Taste().sign * queue.submit_s\n"
    )
    assert starts(own(tmp_path, text)) == [0, 20, 16, 10]


@pytest.mark.parametrize(
    ("text", "function", "complaint"),
    [
        ("def score(queue): return queue.gpus", "scores", "holds no 'scores'"),
        ("score = 3", "score", "3 is no function that scores the queue"),
        ("def score(queue) return 1", "score", "cannot be loaded: SyntaxError"),
        ("import no_such_module_at_all", "score", "cannot be loaded: ModuleNotFoundError"),
        ("1 / 0", "score", "cannot be loaded: ZeroDivisionError"),
        ("def score(queue): return queue.gpus[:1]", "score", r"gave scores of shape \(1,\) for 2 jobs, not \(2,\)"),
        ("def score(queue): return 1.0", "score", r"gave scores of shape \(\) for 1 jobs"),
        ("def score(queue): return None", "score", r"gave scores of shape \(\)"),
        ("def score(queue): return queue.gpus * float('nan')", "score", "gave NaN as the score of 1 of 1 jobs"),
        ("def score(queue): return queue.duration_s", "score", "failed at 0 s, 1 jobs waiting: AttributeError"),
        ("def score(queue): return ['a'] * len(queue)", "score", "failed at 0 s, 1 jobs waiting: ValueError"),
        ("def score(): return 1", "score", "failed at 0 s, 1 jobs waiting: TypeError"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(text, function, complaint, tmp_path):
    with pytest.raises(InputError, match=complaint) as caught:
        starts(own(tmp_path, text, function))
    assert "\n" not in str(caught.value)
    assert "own" in str(caught.value)


def test_there_is_no_file(tmp_path):
    with pytest.raises(InputError, match=r"there is no file .*nothing\.py"):
        starts(f"{tmp_path / 'nothing.py'}:score")


def test_an_unknown_name_lists_those_there_are():
    with pytest.raises(InputError, match=r"no policy 'fifo'; there are: fcfs, .* or your own as path\.py:function"):
        starts("fifo")


def test_something_else_is_no_policy():
    with pytest.raises(InputError, match="3 is no policy"):
        starts(3)


def test_commit_mode_refuses_it():
    """RLScheduler's machine runs in compiled code alone; it would have ignored the function."""
    with pytest.raises(InputError, match="commit mode knows only rules of the core"):
        starts(lambda queue: queue.submit_s, commit=True)


def test_an_installed_package_brings_one(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "rltune.policies", "newest", "def score(queue): return -queue.submit_s\n", "score")
    made = rltune.simulate(JOBS, CLUSTER, policy="newest")
    assert made.settings.policy == "newest"
    assert made.start_s.tolist() == [0, 20, 16, 10]
    with pytest.raises(InputError, match="did you mean newest"):
        rltune.simulate(JOBS, CLUSTER, policy="nwest")


def test_an_object_in_a_file_is_a_policy(tmp_path):
    spec = own(tmp_path, "from rltune.policy.multifactor import Multifactor\nmine = Multifactor(age=3.0)\n", "mine")
    assert rltune.simulate(JOBS, CLUSTER, policy=spec).settings.policy == "multifactor"
