"""Training over a Ray cluster: the same weights as here, whatever happens to the workers."""

import os
import signal

import pytest
from learn.small_training import trained
from learn.test_train import weights

from rltune.parallel import Ray


class Deadly(Ray):
    """A cluster on which the first worker that is given a window kills itself, once for every kind of work."""

    def __init__(self, address, folder) -> None:
        super().__init__(address)
        self.folder = folder

    def each(self, function, items):
        mark = str(self.folder / type(function).__name__)

        def dies_once(item):
            try:
                os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return function(item)
            os.kill(os.getpid(), signal.SIGKILL)
            return None

        return super().each(dies_once, items)


@pytest.mark.slow
def test_weights_are_those_of_a_training_here_though_workers_die(ray_cluster, tmp_path):
    """Windows are drawn, run and judged on two workers; one dies in each kind of work, and nothing is lost."""
    here = trained(epochs=2)
    with Deadly(ray_cluster, tmp_path) as spread:
        there = trained(epochs=2, spread=spread)
    assert weights(there) == weights(here)
    assert there.progress.curve == here.progress.curve
    assert {path.name for path in tmp_path.iterdir()} == {"Looker", "BaseRun", "Roller", "Judge"}
