"""Maintenance and outages in a cluster's file are told by one clock: that of the history they were found in."""

import pytest
from made_history import as_sacct, cluster, happened, workload

from rltune.calibration.cluster_file import file_with
from rltune.calibration.finding import SiteFact
from rltune.cli.trace_argument import load_workload
from rltune.cluster import Cluster
from rltune.errors import InputError

NODES = "\n[[group]]\ncount = 1\ngpus = 4\n"
WINDOW = "[[maintenance]]\nstart_s = 10\nend_s = 20\n"
FOUND = [SiteFact("maintenance", "nothing started", ("[[maintenance]]", "start_s = 30", "end_s = 40"))]


def taken_over(tmp_path, text, clock_s):
    path = tmp_path / "c.toml"
    path.write_text(file_with(text, FOUND, clock_s))
    return Cluster.from_toml(path)


@pytest.mark.parametrize("line", ["clock_s = 1000.0", "  clock_s=1000.0  # of before", '"clock_s" = 1000.0'])
@pytest.mark.parametrize("clock_s", [9_999_999.0, None])
def test_a_clock_of_before_does_not_stay_for_windows_of_another_history(tmp_path, line, clock_s):
    """Also where the new history does not tell its own."""
    made = taken_over(tmp_path, f'calibrated = true\n{line}\nname = "x"\n{NODES}', clock_s)
    assert (made.clock_s, made.name, len(made.maintenance)) == (clock_s, "x", 1)


def test_a_clock_stays_with_windows_that_were_told_by_it(tmp_path):
    made = taken_over(tmp_path, f"calibrated = true\nclock_s = 1000.0\n{NODES}{WINDOW}", 1000.2)
    assert (made.clock_s, len(made.maintenance)) == (1000.0, 2)


def test_what_is_advised_can_be_done(tmp_path):
    """Without the lines of another history the new one is read, and its windows come with its clock."""
    path, history = tmp_path / "c.toml", tmp_path / "sacct.txt"
    history.write_text(as_sacct(happened(workload().window(0, 50), cluster())))
    nodes = "[[group]]\ncount = 8\ngpus = 8\n"
    path.write_text(f"clock_s = 1000.0\n{nodes}{WINDOW}")
    with pytest.raises(InputError, match="leave out those lines; rltune calibrate finds those of this history"):
        load_workload(str(history), None, Cluster.load(str(path)), as_submitted=True)
    path.write_text(f"clock_s = 1000.0\n{nodes}")
    work = load_workload(str(history), None, Cluster.load(str(path)), as_submitted=True)
    made = taken_over(tmp_path, path.read_text(), work.origin_s)
    assert made.clock_s == pytest.approx(work.origin_s, abs=0.1)
    assert len(load_workload(str(history), None, made).jobs) == 50
