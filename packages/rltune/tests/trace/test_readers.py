"""Each reader on a small file written by hand: what comes out, and what the quality report says of the rest."""

import gzip
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

import rltune.trace
from rltune.trace import formats, load, read_trace
from rltune.trace.quality import RULES

DATA = Path(__file__).parent / "data"
FILES = json.loads((DATA / "formats.json").read_text())


def found(trace):
    return {f.rule: (f.count, f.line) for f in trace.quality.findings}


def same(values, expected):
    np.testing.assert_array_equal(np.asarray(values), np.asarray(expected))


def test_every_format_has_a_file_here():
    assert set(FILES) | {"parquet"} == set(formats())


def test_formats_are_still_listed_once_a_trace_has_been_read():
    """In a fresh process: a submodule of the function's name would take its place when it is imported."""
    code = "import rltune, sys; rltune.trace.load(sys.argv[1]); print(*rltune.trace.formats())"
    done = subprocess.run([sys.executable, "-c", code, DATA / FILES["csv"]], capture_output=True, text=True, check=True)
    assert done.stdout.split() == list(formats())


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_known_by_its_content_whatever_its_name(name, tmp_path):
    copy = tmp_path / "history"
    copy.write_bytes((DATA / FILES[name]).read_bytes())
    assert load(copy).quality.format == name


@pytest.mark.parametrize("name", FILES)
def test_gzip_and_windows_line_ends_and_a_byte_order_mark_change_nothing(name, tmp_path):
    text = (DATA / FILES[name]).read_bytes()
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    plain.write_bytes(text)
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n")))
    one, other = load(plain), load(packed)
    assert one.jobs.to_polars().equals(other.jobs.to_polars())
    assert found(one) == found(other)


@pytest.mark.parametrize("name", FILES)
def test_blank_lines_are_no_rows_and_lines_are_counted_right(name, tmp_path):
    if name == "philly":
        pytest.skip("blank lines mean nothing in JSON")
    lines = (DATA / FILES[name]).read_text().splitlines()
    spaced = tmp_path / "spaced"
    spaced.write_text("\n".join([lines[0], "", *lines[1:], "", ""]))
    trace, plain = load(spaced), load(DATA / FILES[name])
    assert trace.quality.rows == plain.quality.rows
    assert set(trace.lines) <= {1} | set(range(3, len(lines) + 2))


@pytest.mark.parametrize("name", FILES)
def test_rows_read_are_kept_dropped_or_merged_and_every_job_knows_its_line(name):
    trace = load(DATA / FILES[name], name)
    quality = trace.quality
    assert quality.rows == quality.kept + quality.count("dropped") + quality.count("merged")
    assert quality.kept == len(trace.jobs) == len(trace.lines)
    assert (np.diff(trace.jobs.submit_s) >= 0).all()
    text = (DATA / FILES[name]).read_text().splitlines()
    if name != "gaia":
        assert all(str(i) in text[line - 1] for i, line in zip(trace.jobs.id, trace.lines, strict=True))
    assert all(RULES[f.rule].action == f.action and f.example for f in quality.findings)


def test_nothing_heavy_is_imported_before_it_is_needed():
    code = "import sys, rltune.trace; assert not {'polars', 'numpy', 'rich'} & set(sys.modules); rltune.trace.Trace"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = rltune.trace.nonsense


def test_read_trace_gives_the_jobs_alone():
    assert read_trace(DATA / "jobs.csv").to_polars().equals(load(DATA / "jobs.csv").jobs.to_polars())


def test_helios():
    trace = load(DATA / "cluster_log.csv")
    jobs = trace.jobs
    same(jobs.id, ["102", "101", "103", "105"])
    same(jobs.submit_s, [0, 60, 119, 129])
    same(jobs.duration_s, [30, 3600, 0, 60])
    same(jobs.gpus, [16, 8, 0, 1])
    same(jobs.nodes, [2, 0, 0, 0])
    same(jobs.cpus, [64, 16, 4, 4])
    same(jobs.recorded_start_s, [300, 70, 119, 179])
    assert jobs.state.to_list() == ["failed", "completed", "killed", "timeout"]
    assert jobs.name.to_list() == ["train", "train", "eval", "eval"]
    assert jobs.vc.to_list() == ["vcX", "vcX", "vcY", "vcY"]
    assert found(trace) == {
        "never-started": (1, 5),
        "no-gpu-no-cpu": (1, 7),
        "end-before-start": (1, 8),
        "more-nodes-than-gpus": (1, 6),
        "zero-run-time": (1, 4),
    }


def test_helios_without_job_names_as_first_published(tmp_path):
    copy = tmp_path / "cluster_log.csv"
    lines = [
        ",".join(line.split(",")[:3] + line.split(",")[4:])
        for line in (DATA / "cluster_log.csv").read_text().splitlines()
    ]
    copy.write_text("\n".join(lines))
    assert load(copy).quality.format == "helios"
    assert load(copy).jobs.name.to_list() == [None] * 4


def test_philly_names_the_machines_of_the_attempt_that_started_first():
    jobs = load(DATA / "cluster_job_log.json").jobs
    assert dict(zip(jobs.id.tolist(), jobs.recorded_nodes.to_list(), strict=True))["application_1_0001"] == "m47,m48"


def test_openb():
    trace = load(DATA / "openb_pods.csv")
    jobs = trace.jobs
    same(jobs.id, ["pod-0", "pod-1", "pod-2", "pod-4"])
    same(jobs.duration_s, [1000, 30, 39, 0])
    same(jobs.gpus, [1, 1, 0, 8])
    same(jobs.cpus, [12, 6, 8, 8])
    same(jobs.mem_gib, [16, 12, 1, 1])
    same(jobs.recorded_start_s, [0, 60, 56, 71])
    assert jobs.gpu_types.to_list() == [None, "V100M16|V100M32", None, None]
    assert jobs.state.to_list() == [None, "failed", "completed", "failed"]
    assert found(trace) == {"never-started": (1, 5), "gpu-share-rounded-up": (1, 3), "zero-run-time": (1, 6)}


def test_pai_tables_add_tasks_up_and_take_users_from_the_job_table():
    trace = load(DATA / "pai_task_table.csv")
    jobs = trace.jobs
    same(jobs.id, ["j1", "j2", "j4", "j5"])
    same(jobs.submit_s, [90, 195, 205, 395])
    same(jobs.recorded_start_s, [100, 200, 205, 395])
    same(jobs.duration_s, [50, 100, 1, 15])
    same(jobs.gpus, [1, 2, 2, 2])
    same(jobs.cpus, [6, 14, 4, 8])
    same(jobs.mem_gib, [29.296875, 30, 10, 20])
    assert jobs.user.to_list() == ["u1", "u2", None, None]
    assert jobs.gpu_types.to_list() == ["MISC", "T4", "V100", "P100|T4"]
    assert jobs.state.to_list() == ["completed", "completed", "failed", "completed"]
    assert found(trace) == {
        "several-tasks": (2, 3),
        "still-running": (1, 4),
        "never-started": (1, 9),
        "no-run-time": (1, 8),
        "end-before-start": (1, 10),
        "gpu-share-rounded-up": (2, 1),
        "instances-not-told": (1, 5),
        "mixed-gpu-types": (1, 6),
        "submit-is-start": (2, 5),
    }


def test_pai_instances_give_the_run_time_if_their_table_is_the_one_named():
    trace = load(DATA / "pai_instance_table.csv")
    assert trace.quality.path.endswith("pai_task_table.csv")
    same(trace.jobs.duration_s, [48, 100, 1, 15])
    same(trace.jobs.recorded_start_s, [101, 200, 205, 395])
    assert trace.jobs.recorded_nodes.to_list() == ["m1", None, None, None]


def test_pai_job_table_leads_to_the_task_table():
    assert load(DATA / "pai_job_table.csv").jobs.to_polars().equals(load(DATA / "pai_task_table.csv").jobs.to_polars())


def test_pai_tables_as_published_in_a_tar_archive(tmp_path):
    for table in ("task", "job"):
        with tarfile.open(tmp_path / f"pai_{table}_table.tar.gz", "w:gz") as archive:
            archive.add(DATA / f"pai_{table}_table.csv", f"pai_{table}_table.csv")
    trace = load(tmp_path / "pai_task_table.tar.gz")
    assert trace.jobs.to_polars().equals(load(DATA / "pai_task_table.csv").jobs.to_polars())


def test_pai_tables_may_have_a_header_line(tmp_path):
    header = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n"
    (tmp_path / "pai_task_table.csv").write_text(header + (DATA / "pai_task_table.csv").read_text())
    same(load(tmp_path / "pai_task_table.csv").jobs.duration_s, [50, 100, 1, 15])


def test_pai_simulator_multiplies_instances_and_rounds_shares_up():
    trace = load(DATA / "pai_job_sim.csv")
    jobs = trace.jobs
    same(jobs.id, ["1", "2", "3", "4"])
    same(jobs.gpus, [3, 8, 1, 0])
    same(jobs.cpus, [18, 32, 4, 20])
    assert jobs.gpu_types.to_list() == ["T4", "V100", "MISC", None]
    assert found(trace) == {
        "no-gpu-no-cpu": (1, 6),
        "gpu-share-rounded-up": (1, 2),
        "instances-not-told": (1, 4),
        "zero-run-time": (1, 5),
    }


def test_pai_simulator_with_waits_and_groups(tmp_path):
    path = tmp_path / "sim.csv"
    path.write_text(
        "job_id,num_inst,submit_time,num_cpu,num_gpu,gpu_type,duration,user,wait_time,group\n"
        "1,1,10,6.0,1,T4,300,ua,5.5,g1\n2,1,11,6.0,1,T4,300,ua,-3,\n3,1,12,6.0,1,T4,300,ua,,g1\n"
    )
    trace = load(path)
    same(trace.jobs.recorded_start_s, [15.5, np.nan, np.nan])
    assert trace.jobs.name.to_list() == ["g1", None, "g1"]
    assert found(trace) == {"submit-after-start": (1, 3)}


def test_swf_rules_for_minus_one():
    trace = load(DATA / "small.swf")
    jobs = trace.jobs
    same(jobs.id, [1, 2, 5, 6])
    same(jobs.gpus, [8, 4, 16, 1])
    same(jobs.duration_s, [60, 30, 200, 0])
    same(jobs.limit_s, [3600, np.nan, 100, 60])
    same(jobs.recorded_start_s, [110, np.nan, 140, 150])
    same(jobs.mem_gib, [8 * 2048 / 1024**2, np.nan, np.nan, np.nan])
    assert jobs.user.to_list() == ["4", "5", None, "4"]
    assert jobs.name.to_list() == ["7", None, None, None]
    assert jobs.state.to_list() == ["completed", "failed", "killed", None]
    assert [jobs.depends_on(i).tolist() for i in range(4)] == [[], [0], [], []]
    assert found(trace) == {
        "partial-execution": (1, 10),
        "no-run-time": (1, 7),
        "no-gpu-no-cpu": (1, 8),
        "processors-used": (1, 6),
        "zero-run-time": (1, 11),
        "run-over-limit": (1, 9),
        "no-time-asked": (1, 6),
        "unknown-dependency": (1, 9),
    }


def test_oddities_of_other_peoples_swf_logs_are_each_counted():
    trace = load(DATA / "odd.swf")
    jobs = trace.jobs
    same(jobs.id, [1, 2, 3, 4, 5, 9, 11, 10])  # in order of submit, though the file is not
    same(jobs.gpus, [8, 4, 4, 2, 2, 4, 4, 8])
    same(jobs.duration_s, [60, 150, 90, 25, 35, 50, 50, 100])
    same(jobs.recorded_start_s, [110, 130, 125, 130, 140, np.nan, np.nan, 500])
    assert jobs.state.to_list() == [
        "completed", "completed", "failed", "completed", None, "failed", None, "completed",
    ]  # fmt: skip
    assert found(trace) == {
        "partial-execution": (2, 11),
        "earlier-spell": (2, 14),
        "no-submit-time": (1, 20),
        "never-started": (2, 18),
        "several-spells": (1, 13),
        "cut-off-spell": (1, 17),
        "processors-used": (1, 22),
        "more-used-than-asked": (1, 9),
        "submit-after-start": (1, 21),
        "no-time-asked": (1, 22),
    }
    assert (trace.machine.nodes, trace.machine.processors) == (10, 64)


def test_comments_of_an_swf_log_may_be_in_any_alphabet(tmp_path):
    line = " 1 0 5 60 1 -1 -1 1 100 -1 1 1 1 -1 1 1 -1 -1"
    (tmp_path / "log.swf").write_bytes(f"; Acknowledge: Åke\n;MaxProcs: 8\n{line}\n".encode("latin-1"))
    trace = load(tmp_path / "log.swf")
    same(trace.jobs.recorded_start_s, [5])
    assert trace.machine.processors == 8


def test_a_time_that_was_not_asked_is_never_the_run_time():
    """A policy must not see the truth by way of the limit."""
    jobs = load(DATA / "small.swf").jobs
    assert np.isnan(jobs.limit_s[1])
    assert np.isnan(load(DATA / "rltune_19.csv").jobs.limit_s[0])


def test_philly_csv():
    trace = load(DATA / "philly_jobs.csv")
    same(trace.jobs.id, ["1", "0", "2"])
    same(trace.jobs.submit_s, [0, 5, 6])
    assert trace.jobs.state.to_list() == ["completed", None, "completed"]
    assert found(trace) == {"zero-run-time": (1, 4)}


def test_pai_ids_hold_the_name_of_the_task(tmp_path):
    """Of `ali-JOB-TASK#ROW` the task is the name; other ids say nothing, and a file without any has no names."""
    file = tmp_path / "pai.csv"
    rows = ("ali-e292c9c65d286997-worker#3,0,10,1", "ali-51d01202-PyTorch-Worker#4,1,10,1", "17#5,2,10,1")
    file.write_text("\n".join(("job_id,arrival_s,service_sec,gpu_count", *rows)) + "\n")
    assert load(file).jobs.name.to_list() == ["worker", "PyTorch-Worker", None]
    file.write_text("job_id,arrival_s,service_sec,gpu_count\n17#5,2,10,1\n")
    assert load(file).jobs.name.names == ()


def test_arrival_csv():
    trace = load(DATA / "arrivals.csv")
    same(trace.jobs.submit_s, [0, 3.5])
    same(trace.jobs.gpus, [32, 1])
    assert found(trace) == {"no-gpu-no-cpu": (1, 4)}


def test_gaia_counts_in_hours_or_in_seconds(tmp_path):
    trace = load(DATA / "gaia.csv")
    same(trace.jobs.duration_s, [1800, 90_900])
    same(trace.jobs.submit_s, [0, 5400])
    same(trace.jobs.cpus, [1, 3])
    assert found(trace) == {"hours-to-seconds": (2, 2)}
    in_seconds = tmp_path / "gaia.csv"
    in_seconds.write_text("arrival_time,length,cpus\n0.0,6302.0,1\n68.0,1000.0,2\n")
    same(load(in_seconds).jobs.duration_s, [6302, 1000])
    assert found(load(in_seconds)) == {}


def test_rltune_csv_of_19_fields():
    trace = load(DATA / "rltune_19.csv")
    jobs = trace.jobs
    same(jobs.id, ["jobA", "jobB", "jobD"])
    same(jobs.gpus, [8, 1, 1])
    same(jobs.limit_s, [np.nan, 60, 60])
    same(jobs.mem_gib, [29.5, np.nan, np.nan])
    same(jobs.recorded_start_s, [1201, 1317, np.nan])
    assert jobs.gpu_types.to_list() == ["T4", "V100M32", None]
    assert jobs.vc.to_list() == [None, "vc2", "vc2"]
    assert jobs.user.to_list() == ["2", "4", "4"]
    assert found(trace) == {"no-run-time": (1, 3), "no-time-asked": (1, 1), "gpu-type-unknown": (1, 4)}


def test_rltune_csv_of_20_fields_has_the_vc_one_further_and_types_without_meaning():
    trace = load(DATA / "rltune_20.csv")
    assert trace.jobs.vc.to_list() == ["vc5", "vc1"]
    assert trace.jobs.gpu_types.to_list() == [None, None]
    assert found(trace) == {"no-time-asked": (1, 1), "gpu-type-unknown": (2, 1)}


def test_philly_sums_attempts_and_takes_gpus_from_them():
    trace = load(DATA / "cluster_job_log.json")
    jobs = trace.jobs
    same(jobs.id, ["application_1_0003", "application_1_0001"])
    same(jobs.submit_s, [0, 159])
    same(jobs.duration_s, [0, 74 + 7200])
    same(jobs.gpus, [2, 4])
    same(jobs.recorded_start_s, [60, 189])
    assert jobs.user.to_list() == ["ce0002", "ce0001"]
    assert jobs.state.to_list() == ["failed", "completed"]
    assert found(trace) == {
        "never-started": (1, 24),
        "still-running": (1, 43),
        "no-gpu-no-cpu": (1, 51),
        "end-before-start": (1, 59),
        "several-attempts": (2, 5),
        "attempt-without-times": (1, 32),
        "attempts-differ": (1, 32),
        "zero-run-time": (1, 32),
    }
    assert trace.origin_s == 1507338540.0


def test_philly_job_without_submit_time_or_gpus(tmp_path):
    text = (DATA / "cluster_job_log.json").read_text()
    path = tmp_path / "log.json"
    path.write_text(text.replace('"2017-10-07 01:11:39"', '"None"').replace('["gpu0", "gpu1"]}]}', "null}]}"))
    trace = load(path)
    same(trace.jobs.gpus, [1, 4])
    same(trace.jobs.submit_s, [0, 189])
    assert found(trace)["submit-is-start"] == (1, 5)


def test_an_archive_with_two_tables_is_refused(tmp_path):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        archive.add(DATA / "jobs.csv", "a.csv")
        archive.add(DATA / "jobs.csv", "b.csv")
    (tmp_path / "two.tar.gz").write_bytes(buffer.getvalue())
    with pytest.raises(ValueError, match="holds 2 csv files"):
        load(tmp_path / "two.tar.gz")


def test_the_clock_of_an_swf_log_is_that_of_its_site(tmp_path):
    """CTC-SP2 begins at 17:06 in summer, though its zone is given as of winter."""
    line = "1 0 10 100 4 -1 -1 4 200 -1 1 1 1 -1 1 -1 -1 -1"
    head = "; UnixStartTime: 835823160\n; TimeZone: -18000\n"
    clocks = {"; TimeZoneString: US/Eastern\n": 17, "": 16, "; TimeZoneString: Nowhere/None\n": None}
    for zone, hour in clocks.items():
        (tmp_path / "log.swf").write_text(f"{head}{zone}{line}\n")
        origin = load(tmp_path / "log.swf").origin_s
        assert (origin if origin is None else origin // 3600 % 24) == hour
    (tmp_path / "log.swf").write_text(f"; Version: 2\n{line}\n")
    assert load(tmp_path / "log.swf").origin_s is None


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_text_is_read_in_any_encoding_that_says_so_and_with_any_line_end(encoding, end, tmp_path):
    """PowerShell writes UTF-16, and old Macs end lines by a carriage return."""
    text = "submit_s,duration_s,gpus,user\n0,5,1,ann\n7,5,2,bob\n".replace("\n", end)
    (tmp_path / "jobs.csv").write_bytes(text.encode(encoding))
    jobs = read_trace(tmp_path / "jobs.csv")
    same(jobs.submit_s, [0, 7])
    assert jobs.user.names == ("ann", "bob")
