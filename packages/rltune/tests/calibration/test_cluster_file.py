"""Maintenance and outages in a cluster's file are told by one clock: that of the history they were found in."""

import tomllib

import pytest
from made_history import as_sacct, cluster, happened, workload

from rltune.calibration.cluster_file import dated, file_with, lines_of, not_told_twice, some_lines
from rltune.calibration.finding import SiteFact
from rltune.cli.trace_argument import load_workload
from rltune.cluster import Cluster, Maintenance, Outage
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


def test_moments_are_dated_on_the_clock_of_the_history():
    """As it tells them: 10 minutes after 2026-10-12 02:38:00, whatever zone that is of."""
    clock_s = 1_791_772_680.0
    down = SiteFact("down", "x", ("[[outage]]  # n1", "node = 600", "down_s = 600.0", "up_s = 86400.0"))
    text = lines_of([dated(one, clock_s) for one in (*FOUND, down)])
    assert "start_s = 30  # 2026-10-12 02:38:30\n" in text
    assert "node = 600\ndown_s = 600.0  # 2026-10-12 02:48:00\nup_s = 86400.0  # 2026-10-13 02:38:00\n" in text
    assert tomllib.loads(text) == tomllib.loads(lines_of([*FOUND, down]))
    assert dated(down, None) == down


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


def test_a_site_of_which_nothing_is_found_has_a_file_to_go_on_with():
    """The next command names it: the same cluster, marked, without a clock that nothing is told by."""
    text = file_with(f'name = "x"\n{NODES}', [SiteFact("hidden priorities", "something else")], 1000.0)
    made = tomllib.loads(text)
    assert made["calibrated"]
    assert "clock_s" not in made
    assert "found nothing to add" in text
    assert "Inferred" not in text


def test_the_verdict_stands_in_the_file_once_and_is_the_last(tmp_path):
    """Calibrating a calibrated file again replaces it."""
    once = file_with(f'name = "x"\n{NODES}', FOUND, 1000.0, "neither")
    again = file_with(once, [SiteFact("hidden priorities", "something else")], 1000.0, "ranking")
    path = tmp_path / "c.toml"
    for text, verdict in ((once, "neither"), (again, "ranking")):
        path.write_text(text)
        assert Cluster.from_toml(path).usable_for == verdict


def test_what_is_shown_of_many_lines_is_whole_tables_with_outages_last():
    """What fits in no more is counted, by kind."""
    outages = tuple(x for n in range(9) for x in (f"[[outage]]  # n{n}", f"node = {n}", "down_s = 1.0", "up_s = 2.0"))
    limit = SiteFact("limit", "x", ("[[limit]]", 'scope = "user"', "max_gpus = 8"))
    order = SiteFact("weights", "x", ("[scheduler]", 'policy = "fcfs"', "[scheduler.qos_priority]", "high = 1.0"))
    stop = SiteFact("stop", "x", ("[[maintenance]]", "start_s = 3.0", "end_s = 4.0"))
    found = [stop, SiteFact("down", "x", outages), limit, order]
    for most in range(40):
        lines, left = some_lines(found, most)
        shown = tomllib.loads("\n".join(lines))
        assert len(lines) <= max(most, 4)
        assert all(one.keys() == {"node", "down_s", "up_s"} for one in shown.get("outage", []))
        assert len(shown.get("outage", [])) + left["outage"] == 9
        assert next(iter(shown)) == "limit"
    lines, left = some_lines(found, 20)
    assert list(tomllib.loads("\n".join(lines))) == ["limit", "scheduler", "maintenance"]
    assert left == {"outage": 9}
    lines, left = some_lines(found, 26)
    assert left == {"outage": 7}
    assert lines[-4] == "[[outage]]  # n1"
    assert tomllib.loads("\n".join(some_lines(found, 99)[0])) == tomllib.loads(lines_of(found))


def test_of_many_outages_those_are_offered_that_the_file_has_not():
    """By whatever lines it has them: most of the time of one is enough."""
    lines = tuple(x for n in range(3) for x in ("[[outage]]", f"node = {n}", "down_s = 100.0", "up_s = 200.0"))
    down = SiteFact("down", "x", lines)
    site = cluster(outages=(Outage(node=0, down_s=90.0, up_s=160.0), Outage(node=1, down_s=90.0, up_s=140.0)))
    left = not_told_twice(down, site)
    assert [one["node"] for one in tomllib.loads("\n".join(left.toml))["outage"]] == [1, 2]
    assert left.evidence.endswith("(the cluster's file has some of it)")
    closed = cluster(maintenance=(Maintenance(start_s=100.0, end_s=200.0),))
    assert not_told_twice(down, closed).toml == ()
    assert not_told_twice(down, cluster()) == down
