"""Run by the Python that AccaSim is installed in: simulates a workload and prints how many seconds it took.

`python peers_accasim.py FOLDER fcfs|easy`, with `jobs.swf` and `system.json` in the folder; see `peers.py`.
"""

import collections
import collections.abc
import contextlib
import io
import sys
import time
from pathlib import Path


def one_node(default):
    """Make AccaSim ask one node for all processors of a job; by default it asks a node for each processor."""

    class OneNode(default):
        def tweak_function(self, job):
            job = super().tweak_function(job)
            job["requested_nodes"] = 1
            job["mem"] = job["core"]  # its EASY divides by the memory asked, its best fit counts it too
            job["requested_resources"] = {"core": job["core"], "mem": job["mem"]}
            return job

    return OneNode(0)


def main():
    collections.Mapping = collections.abc.Mapping  # AccaSim 1.1.3 is of 2018 and takes it from where it was then
    from accasim.base.allocator_class import BestFit
    from accasim.base.scheduler_class import EASYBackfilling, FirstInFirstOut
    from accasim.base.simulator_class import Simulator
    from accasim.utils.reader_class import DefaultTweaker

    folder, rule = Path(sys.argv[1]), sys.argv[2]
    dispatcher = {"fcfs": FirstInFirstOut, "easy": EASYBackfilling}[rule](BestFit())
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        simulator = Simulator(
            str(folder / "jobs.swf"),
            str(folder / "system.json"),
            dispatcher,
            statistics_output=False,
            show_statistics=False,
            tweak_function=one_node(DefaultTweaker),
            RESULTS_FOLDER_PATH=str(folder),
            LOG_LEVEL="ERROR",
        )
        begun = time.perf_counter()
        simulator.start_simulation()
        took = time.perf_counter() - begun
    print(took)


if __name__ == "__main__":
    main()
