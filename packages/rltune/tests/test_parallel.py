"""Work gives the same results wherever it is spread, and a worker that is killed loses nothing."""

import importlib
import os
import signal
import sys
import threading

import numpy as np
import pytest

from rltune.cluster import Cluster
from rltune.errors import InputError
from rltune.evaluation import evaluate
from rltune.jobs import Jobs
from rltune.parallel import Here, Processes, Ray, Threads, spread_over

CLUSTER = Cluster.uniform(4, 4)
ITEMS = list(range(12))
SQUARES = [i * i for i in ITEMS]
HELPERS = """
import os, signal
from pathlib import Path
from rltune.errors import InputError

def square(x):
    return x * x

def refuse(x):
    raise InputError(f"{x} is refused")

class DiesOnce:
    def __init__(self, mark):
        self.mark = mark
    def __call__(self, x):
        if x == 5 and not Path(self.mark).exists():
            Path(self.mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return x * x

def die(x):
    os.kill(os.getpid(), signal.SIGKILL)

class Large:
    def __init__(self):
        self.pickled = 0
    def __getstate__(self):
        self.pickled += 1
        return {"pickled": self.pickled}
    def __call__(self, x):
        return x * x
"""


@pytest.fixture(scope="module")
def helpers(tmp_path_factory):
    """Functions in a module that other processes can import."""
    folder = tmp_path_factory.mktemp("helpers")
    (folder / "spread_helpers.py").write_text(HELPERS)
    sys.path.insert(0, str(folder))
    yield importlib.import_module("spread_helpers")
    sys.path.remove(str(folder))


@pytest.fixture(params=[Here, lambda: Threads(2), lambda: Processes(2)], ids=["here", "threads", "processes"])
def spread(request):
    with request.param() as made:
        yield made


def test_results_come_in_the_order_of_the_items(spread, helpers):
    """Whoever finishes first."""
    assert spread.map(helpers.square, ITEMS) == SQUARES
    assert sorted(spread.each(helpers.square, ITEMS)) == list(enumerate(SQUARES))
    assert spread.map(helpers.square, []) == []


def test_progress_is_told_item_by_item(spread, helpers):
    """As many times as there are items."""
    told = []
    spread.map(helpers.square, ITEMS, told.append)
    assert told == list(range(1, len(ITEMS) + 1))


def test_what_a_function_raises_is_raised(spread, helpers):
    """A user's mistake stays one sentence."""
    with pytest.raises(InputError, match="0 is refused"):
        spread.map(helpers.refuse, [0])
    assert spread.map(helpers.square, ITEMS) == SQUARES


def test_threads_work_at_the_same_time():
    """Two wait for each other: one after the other they would wait for ever."""
    meet = threading.Barrier(2, timeout=300)
    with Threads(2) as spread:
        assert sorted(spread.map(lambda _: meet.wait(), [0, 1])) == [0, 1]


def test_a_killed_process_loses_nothing(helpers, tmp_path):
    """The pool is made anew, and what was not finished is done again."""
    with Processes(2) as spread:
        assert spread.map(helpers.DiesOnce(tmp_path / "mark"), ITEMS) == SQUARES
        assert (tmp_path / "mark").exists()
        assert spread.map(helpers.square, ITEMS) == SQUARES


def test_processes_that_always_die_end_with_a_sentence(helpers):
    """They are not started for ever."""
    with Processes(2) as spread, pytest.raises(InputError, match="a worker process died"):
        spread.map(helpers.die, ITEMS)


def test_a_function_is_sent_once_however_often_it_is_mapped(helpers):
    """It may hold a whole trace."""
    large = helpers.Large()
    with Processes(2) as spread:
        for _ in range(3):
            assert spread.map(large, ITEMS) == SQUARES
        assert large.pickled == 1
        assert spread.map(helpers.square, ITEMS) == SQUARES
        assert spread.map(large, ITEMS) == SQUARES
    assert large.pickled == 2


def test_the_place_is_chosen_by_what_is_asked():
    """One worker needs no process of its own."""
    assert isinstance(spread_over(1), Here)
    with spread_over(2) as two:
        assert isinstance(two, Processes)


@pytest.mark.parametrize(
    ("address", "sentence"),
    [("127.0.0.1:1", "no Ray cluster at '127.0.0.1:1'"), ("somewhere", "give host:port"), ("host:99999999", "no Ray")],
)
def test_an_address_without_a_ray_cluster_is_told_at_once(address, sentence):
    """Ray itself would try for minutes."""
    with pytest.raises(InputError, match=sentence):
        Ray(address)


@pytest.fixture(scope="module")
def ray_spread(ray_cluster):
    with Ray(ray_cluster) as made:
        yield made


def test_ray_gives_what_this_process_gives(ray_spread):
    """In the order of the items."""
    assert ray_spread.map(lambda x: x * x, ITEMS) == SQUARES
    assert ray_spread.map(lambda x: x * x, []) == []


def test_ray_uses_several_processes_of_its_own(ray_spread):
    """Not this one."""
    pids = set(ray_spread.map(lambda _: os.getpid(), ITEMS))
    assert os.getpid() not in pids
    assert pids


def test_a_killed_ray_worker_loses_nothing(ray_spread, tmp_path):
    """Ray does again what it had not finished."""
    mark = tmp_path / "mark"

    def dies_once(x):
        if x == 5 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return x * x

    assert ray_spread.map(dies_once, ITEMS) == SQUARES
    assert mark.exists()


def test_what_is_raised_on_ray_is_one_sentence(ray_spread):
    """Without Ray's own traceback around it."""

    def refuse(x):
        raise InputError(f"{x} is refused")

    with pytest.raises(InputError, match=r"^0 is refused$"):
        ray_spread.map(refuse, [0])


def test_an_evaluation_on_ray_equals_one_here(ray_spread):
    """To the last bit, warm history and a random estimator included."""
    rng, n = np.random.default_rng(0), 1200
    jobs = Jobs.from_arrays(
        np.sort(rng.uniform(0, 60_000, n)), rng.lognormal(6, 1.2, n), rng.choice([1, 2, 4], n), vc=rng.integers(0, 3, n)
    )
    how = {"holdout": 0.3, "size": 100, "every": 25, "contended_s": 1.0, "select": True}
    for estimator in ("history", "noisy:0.5"):
        here, there = (
            evaluate(jobs, CLUSTER, ["saf", "qssf"], ["none", "easy"], estimator=estimator, spread=place, **how)
            for place in (None, ray_spread)
        )
        assert here.to_dict() == there.to_dict()
