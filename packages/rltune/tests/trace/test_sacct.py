"""sacct's output as recorded from a Slurm 22.05, with all its edge cases."""

from pathlib import Path

import numpy as np
import pytest

from rltune.errors import InputError
from rltune.trace import load
from rltune.trace.every_mistake import read_or_list
from rltune.trace.tres import Tres, parse_duration, parse_mem, parse_tres

DATA = Path(__file__).parent / "data"
HEAD = "JobID|JobName|User|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|ReqTRES|AllocTRES"
LACKING = ("no-nodes-column", "no-eligible-column", "no-partition-column")  # of this head
ONE_GPU = "cpu=1,gres/gpu=1,mem=1G,node=1"


def write(tmp_path, *lines, head=HEAD):
    path = tmp_path / "sacct.txt"
    path.write_text("\n".join([head, *lines]) + "\n")
    return path


def line(**fields):
    usual = {"job": "1", "name": "train", "user": "ann", "state": "COMPLETED", "submit": "100", "start": "110"}
    usual |= {"end": "120", "elapsed": "10", "limit": "5", "req": ONE_GPU, "alloc": ONE_GPU}
    return "|".join((usual | fields).values())


def test_the_recorded_output():
    trace = load(DATA / "sacct.txt")
    jobs = trace.jobs
    ids = jobs.id.tolist()
    assert ids == ["2013", "2006+0", "2006+1", "2004_3", "2009", "2011", "2014", "2026", "2019"]
    assert {f.rule: (f.count, f.line) for f in trace.quality.findings} == {
        "job-step": (1, 17),
        "half-written": (2, 15),
        "still-running": (1, 16),
        "earlier-spell": (1, 9),
        "never-started": (3, 6),
        "delimiter-in-name": (1, 14),
        "several-spells": (1, 10),
        "memory-not-counted": (8, 2),
        "het-part": (2, 3),
        "eligible-later": (1, 5),  # 2019 only after its requeue
        "run-over-limit": (1, 13),
        "no-time-asked": (1, 11),
    }
    by_id = {i: n for n, i in enumerate(ids)}
    assert jobs.gpus[by_id["2013"]] == 4
    assert jobs.nodes[by_id["2013"]] == 2
    assert np.isnan(jobs.mem_gib[by_id["2013"]])  # Slurm gave none, so there it is no resource
    assert jobs.gpu_types.name_of(by_id["2013"]) == ""  # the user named no type, what was given does not bind
    assert jobs.gpu_types.name_of(by_id["2006+1"]) == "k80"
    assert jobs.array[by_id["2004_3"]] == 2004
    assert jobs.array[by_id["2013"]] == -1
    assert np.isnan(jobs.limit_s[by_id["2009"]])
    assert jobs.limit_s[by_id["2014"]] == 60
    assert jobs.duration_s[by_id["2014"]] == 62
    assert jobs.name.name_of(by_id["2026"]) == "a|b"
    assert jobs.gpus[by_id["2026"]] == 0
    assert [jobs.state.name_of(by_id[i]) for i in ("2013", "2011", "2014")] == ["completed", "failed", "timeout"]
    assert jobs.vc.names == ("gpu",)
    assert jobs.recorded_nodes.name_of(by_id["2013"]) == "k80-[1-2]"
    assert jobs.recorded_eligible_s[by_id["2013"]] == jobs.submit_s[by_id["2013"]] == 0


def test_a_requeued_job_keeps_its_first_submit_and_start_and_all_it_ran():
    jobs = load(DATA / "sacct.txt").jobs
    row = jobs.id.tolist().index("2019")
    assert jobs.submit_s[row] == 3
    assert jobs.duration_s[row] == 20 + 60
    assert jobs.recorded_start_s[row] == 33


def test_spells_recorded_from_a_real_slurm_are_one_job_each():
    """Two requeues, a failed node, Slurm's own preemption, an array's task; recorded with `sacct -X -D`."""
    trace = load(DATA / "sacct_spells.txt")
    ran = dict(zip(trace.jobs.name.to_list(), trace.jobs.duration_s.tolist(), strict=True))
    del ran["tasks"]  # two tasks of one name
    assert ran == {"twice": 6 + 3 + 9, "broken": 9, "once": 4, "lower": 4 + 12, "given-up": 3, "plain": 2, "higher": 3}
    by_id = dict(zip(trace.jobs.id.tolist(), trace.jobs.duration_s.tolist(), strict=True))
    assert (by_id["7_1"], by_id["7_2"]) == (2 + 9, 9)
    states = dict(zip(trace.jobs.name.to_list(), trace.jobs.state.to_list(), strict=True))
    assert (states["twice"], states["broken"], states["once"]) == ("completed", "completed", "failed")
    found = {f.rule: f.count for f in trace.quality.findings}
    assert {rule: found[rule] for rule in found if "spell" in rule or rule == "still-running"} == {
        "earlier-spell": 4,  # 1 twice, 4, 7_1
        "lost-spell": 1,  # 2, on the node that failed
        "several-spells": 4,
        "cut-off-spell": 1,  # 5 was cancelled while it waited: sacct has no record of that
        "still-running": 2,  # 6 runs again, so its first spell is not all of it
    }


def test_work_that_a_failing_node_lost_does_not_count(tmp_path):
    broken = line(state="NODE_FAIL", start="110", end="130", elapsed="20")
    given = line(state="PREEMPTED", submit="130", start="140", end="145", elapsed="5")
    done = line(submit="145", start="150", end="157", elapsed="7")
    trace = load(write(tmp_path, done, given, broken))
    assert trace.jobs.duration_s.tolist() == [12]
    assert trace.jobs.recorded_start_s.tolist() == [10]
    assert trace.jobs.limit_s.tolist() == [2 * 300]  # each of the two spells that count had it anew
    assert (trace.quality["lost-spell"], trace.quality["earlier-spell"]) == (1, 1)


def test_a_job_whose_node_failed_for_good_keeps_what_it_ran(tmp_path):
    trace = load(write(tmp_path, line(state="NODE_FAIL", elapsed="20")))
    assert trace.jobs.duration_s.tolist() == [20]
    assert trace.quality["lost-spell"] == 0


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "COMPLETING"])
def test_a_requeued_job_that_waits_or_runs_again_has_not_ended(tmp_path, state):
    """Its first spell is not its run time, and must not be learnt as one."""
    spell = line(state="REQUEUED", start="110", end="130", elapsed="20")
    now = line(state=state, submit="130", start="Unknown", end="Unknown", elapsed="0")
    trace = load(write(tmp_path, line(job="9"), spell, now))
    assert trace.jobs.id.tolist() == ["9"]
    assert trace.quality["still-running"] == 2


def test_a_finished_job_that_somebody_ran_again_counts_once_with_its_last_run(tmp_path):
    """The spells before its first end belong to that, not to the second run."""
    spell = line(state="REQUEUED", start="110", end="130", elapsed="20")
    done = line(submit="130", start="140", end="150", elapsed="10")
    second = line(submit="200", start="210", end="213", elapsed="3")
    trace = load(write(tmp_path, spell, done, second))
    assert trace.jobs.duration_s.tolist() == [3]
    assert trace.quality["duplicate-requeue"] == 2


def test_exports_of_two_clusters_are_not_taken_for_requeues_of_one(tmp_path):
    """A number that stands for jobs of two users is of two clusters; one of the jobs would be left out as a requeue."""
    with pytest.raises(InputError, match=r"line 4.*'7' is a job of 'ann' in line 2, here of 'bob'.*several clusters"):
        load(write(tmp_path, line(job="7"), line(job="8"), line(job="7", user="bob", submit="200", start="210")))


def test_a_list_of_nodes_that_was_cut_short_is_left_out_and_counted(tmp_path):
    lines = [line(job=str(i)) + f"|{nodes}" for i, nodes in enumerate(["gpu[1-2]", "gpu[1-", "None assigned"])]
    trace = load(write(tmp_path, *lines, head=f"{HEAD}|NodeList"))
    assert trace.jobs.recorded_nodes.to_list() == ["gpu[1-2]", None, None]
    assert trace.quality["node-list-unreadable"] == 1


def test_epoch_times_and_local_times_give_the_same(tmp_path):
    epoch = write(tmp_path, line())
    one = load(epoch).jobs
    iso = write(tmp_path, line(submit="1970-01-01T00:01:40", start="1970-01-01T00:01:50", end="1970-01-01T00:02:00"))
    assert load(iso).jobs.to_polars().equals(one.to_polars())
    assert load(iso).origin_s == 100


def test_parsable_with_a_closing_separator(tmp_path):
    path = write(tmp_path, line() + "|", line(job="2") + "|", head=HEAD + "|")
    assert load(path).jobs.id.tolist() == ["1", "2"]


def test_elapsed_and_limit_in_slurms_spelling(tmp_path):
    head = HEAD.replace("ElapsedRaw", "Elapsed").replace("TimelimitRaw", "Timelimit")
    jobs = load(write(tmp_path, line(elapsed="1-00:00:05", limit="2-12:00:00"), head=head)).jobs
    assert jobs.duration_s.tolist() == [86_405]
    assert jobs.limit_s.tolist() == [216_000]


@pytest.mark.parametrize("limit", ["UNLIMITED", "Partition_Limit", ""])
def test_no_limit(tmp_path, limit):
    assert np.isnan(load(write(tmp_path, line(limit=limit))).jobs.limit_s[0])


def test_the_throttle_of_an_array_is_taken_from_the_record_that_tells_it(tmp_path):
    waiting = line(job="7_[3-9%2]", state="CANCELLED by 0", start="None", alloc="", elapsed="0")
    jobs = load(write(tmp_path, line(job="7_1"), line(job="7_2", start="111"), waiting, line(job="8_1"))).jobs
    assert jobs.array.tolist() == [7, 7, 8]
    assert jobs.array_limit.tolist() == [2, 2, 0]


@pytest.mark.parametrize(
    "asked", ["sbatch --array=1-90%5 run.sh", "sbatch -a 1-90%5 x", "sbatch -a1-90%5", "srun -n 1 50%5"]
)
def test_the_throttle_of_an_array_is_taken_from_what_sbatch_was_given(tmp_path, asked):
    head = f"{HEAD}|SubmitLine"
    jobs = load(write(tmp_path, f"{line(job='7_1')}|{asked}", f"{line(job='8')}|{asked}", head=head)).jobs
    assert jobs.array_limit.tolist() == [0 if asked.startswith("srun") else 5, 0]


def test_shards_of_a_gpu_are_rounded_up(tmp_path):
    trace = load(write(tmp_path, line(req="cpu=1,gres/shard=3,node=1", alloc="cpu=1,gres/shard=3,node=1")))
    assert trace.jobs.gpus.tolist() == [1]
    assert trace.quality["gpu-share-rounded-up"] == 1


def test_memory_counts_where_slurm_gives_it(tmp_path):
    """Where it gives none, what a job "asks" for is all that its node has, and would keep others away."""
    given = "cpu=1,gres/gpu=1,node=1"
    trace = load(write(tmp_path, line(), line(job="2", alloc=given)))
    assert trace.jobs.mem_gib[0] == 1
    assert np.isnan(trace.jobs.mem_gib[1])
    assert trace.quality["memory-not-counted"] == 1


def test_a_separator_that_no_name_has(tmp_path):
    """As `rltune trace import-slurm` asks: a name may then hold anything."""
    text = write(tmp_path, line(name="a#b")).read_text().replace("|", "\x1f").replace("#", "|")
    (tmp_path / "sacct.txt").write_text(text)
    trace = load(tmp_path / "sacct.txt")
    assert trace.jobs.name.names == ("a|b",)
    assert trace.quality["delimiter-in-name"] == 0


def test_an_example_in_the_account_can_be_printed(tmp_path):
    """What a terminal would obey is blank."""
    trace = load(write(tmp_path, line(name="\x1b[31mred", limit="UNLIMITED")))
    assert "\x1b" not in trace.quality.findings[0].example


def test_gpus_that_were_given_and_not_asked_count(tmp_path):
    jobs = load(write(tmp_path, line(req="cpu=1,node=1", alloc="cpu=64,gres/gpu:a100=8,gres/gpu=8,node=1"))).jobs
    assert jobs.gpus.tolist() == [8]


def test_only_what_was_given_is_recorded(tmp_path):
    path = tmp_path / "sacct.txt"
    path.write_text("JobIDRaw|State|Submit|Start|End|AllocTRES\n5|COMPLETED|10|20|50|cpu=2,gres/gpu=2,node=1\n")
    jobs = load(path).jobs
    assert jobs.gpus.tolist() == [2]
    assert jobs.duration_s.tolist() == [30]
    assert np.isnan(jobs.limit_s).all()


def test_a_job_that_was_requeued_and_then_cancelled_keeps_the_run_it_had(tmp_path):
    ran = line(state="REQUEUED", start="110", end="130", elapsed="20")
    gone = line(state="CANCELLED by 3", submit="130", start="None", end="140", elapsed="0", alloc="")
    trace = load(write(tmp_path, ran, gone))
    assert trace.jobs.duration_s.tolist() == [20]
    assert trace.jobs.state.to_list() == ["killed"]
    assert trace.quality["duplicate-requeue"] == 1


def test_a_run_to_the_end_is_preferred_to_a_later_requeue(tmp_path):
    done = line(state="COMPLETED", start="110", elapsed="7")
    later = line(state="REQUEUED", submit="200", start="210", end="230", elapsed="20")
    assert load(write(tmp_path, done, later)).jobs.duration_s.tolist() == [7]


def test_the_same_record_twice_is_an_error_and_not_a_requeue(tmp_path):
    with pytest.raises(InputError, match=r"line 4, column JobID: job id '1' was used before .* in line 2"):
        load(write(tmp_path, line(), line(job="2"), line()))


def test_without_any_column_of_resources(tmp_path):
    path = tmp_path / "sacct.txt"
    path.write_text("JobID|State|Submit|Start|End\n5|COMPLETED|10|20|50\n")
    with pytest.raises(InputError, match="column ReqTRES is missing"):
        load(path)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("submit", "yesterday", "column Submit: 'yesterday' is not a time"),
        ("elapsed", "ten", "column ElapsedRaw: 'ten' is not a number"),
        ("elapsed", "-4", "column ElapsedRaw: '-4' is negative"),
        ("limit", "long", "column TimelimitRaw: 'long' cannot be read"),
        ("limit", "-5", "column TimelimitRaw: '-5' cannot be read"),
        ("req", "cpu=x", "column ReqTRES: 'cpu=x' cannot be read"),
        ("req", "cpu", "column ReqTRES: 'cpu' cannot be read"),
    ],
)
def test_a_bad_value_is_named_with_line_and_column(tmp_path, field, value, message):
    with pytest.raises(InputError, match=f"sacct.txt, line 3, {message}"):
        load(write(tmp_path, line(), line(job="2", **{field: value})))


def test_a_surplus_field_without_a_name_column_is_an_error(tmp_path):
    path = tmp_path / "sacct.txt"
    path.write_text("JobID|State|Submit|Start|End|ReqTRES\n5|COMPLETED|10|20|50|cpu=1|x\n")
    with pytest.raises(InputError, match="line 2: has 7 fields, the header has 6"):
        load(path)


def test_tres():
    both = parse_tres("billing=2,cpu=2,gres/gpu:k80=3,gres/gpu:p100=1,gres/gpu=4,mem=512M,node=2")
    assert both == Tres(gpus=4, types=("k80", "p100"), cpus=2, mem_gib=0.5, nodes=2)
    assert parse_tres("gres/gpu:k80=3").gpus == 3
    assert [parse_mem(m) for m in ("1T", "2G", "2048M", "1048576K", "1024")] == [1024, 2, 2, 1, 1]
    assert [parse_duration(d) for d in ("05:10", "01:00:00", "2-00:00:01", "00:01.500")] == [310, 3600, 172_801, 1.5]


def test_a_column_asked_twice(tmp_path):
    with pytest.raises(InputError, match="line 1: column State stands twice"):
        load(write(tmp_path, line() + "|x", head=HEAD + "|State"))


def test_a_state_that_slurm_has_not_is_left_out_and_counted(tmp_path):
    trace = load(write(tmp_path, line(), line(job="2", state="DREAMING"), line(job="3", state="OUT_OF_ME+")))
    assert trace.jobs.id.tolist() == ["1", "3"]
    assert trace.jobs.state.to_list() == ["completed", "failed"]
    assert trace.quality["unknown-state"] == 1


def test_two_exports_joined_are_read_as_one(tmp_path):
    """The second one's header is no job; the records that both have are left out if that is asked for."""
    path = write(tmp_path, line(), line(job="2"), HEAD, line(job="2"), line(job="3"))
    with pytest.raises(InputError, match=r"line 5, column JobID: job id '2' was used before .* in line 3; .*--dedupe"):
        load(path)
    trace = load(path, dedupe=True)
    assert trace.jobs.id.tolist() == ["1", "2", "3"]
    found = {f.rule: f.count for f in trace.quality.findings}
    assert found == {"header-again": 1, "same-record-twice": 1, **dict.fromkeys(LACKING, 3)}
    assert trace.quality.rows == trace.quality.kept + trace.quality.count("dropped")


def test_the_same_record_with_another_comment_is_a_copy_too(tmp_path):
    lines = [line() + "|seen", line() + "|seen again"]
    trace = load(write(tmp_path, *lines, head=HEAD + "|Comment"), dedupe=True)
    assert (len(trace.jobs), trace.quality["same-record-twice"]) == (1, 1)


def test_a_requeue_is_no_copy(tmp_path):
    again = [line(state="REQUEUED"), line(start="200", end="230", elapsed="30")]
    trace = load(write(tmp_path, *again), dedupe=True)
    assert trace.jobs.duration_s.tolist() == [40]  # of both spells
    assert trace.quality["same-record-twice"] == 0


def test_local_times_over_a_change_of_clocks(tmp_path):
    """The run time is what Slurm counted; a start that seems to lie before the submit is left out."""
    day = "2026-10-25T"
    back = line(submit=day + "01:00:00", start=day + "02:50:00", end=day + "02:10:00", elapsed="1200")
    early = line(job="2", submit=day + "02:55:00", start=day + "02:05:00", end=day + "04:05:00", elapsed="7200")
    trace = load(write(tmp_path, back, early))
    assert trace.jobs.duration_s.tolist() == [1200, 7200]
    assert np.isnan(trace.jobs.recorded_start_s).tolist() == [False, True]
    assert {f.rule: f.count for f in trace.quality.findings} == {
        "clock-change": 1,
        "submit-after-start": 1,
        "run-over-limit": 2,
        **dict.fromkeys(LACKING, 2),
    }


WIDE = "JobID|JobName|User|Account|Partition|QOS|State|Submit|Start|End|ElapsedRaw|ReqTRES"


def wide(job, *names):
    return "|".join([job, *names, "COMPLETED", "100", "110", "120", "10", ONE_GPU])


def test_a_separator_in_the_qos_does_not_move_the_columns(tmp_path):
    """The columns between keep the values that other lines have."""
    usual = ("train", "ann", "ml", "gpu", "normal")
    lines = [wide("1", *usual), wide("2", "train", "ann", "ml", "gpu", "a|b"), wide("3", "x|y", *usual[1:])]
    trace = load(write(tmp_path, *lines, head=WIDE))
    assert trace.jobs.qos.to_list() == ["normal", "a|b", "normal"]
    assert trace.jobs.name.to_list() == ["train", "train", "x|y"]
    assert trace.jobs.vc.names == ("gpu",)
    assert (trace.quality["delimiter-in-field"], trace.quality["delimiter-in-name"]) == (1, 1)


def test_a_separator_whose_field_cannot_be_told_costs_the_record(tmp_path):
    """Job 2 may be of account a|ml or of QOS gpu|normal: nothing is repaired by guess."""
    known = [wide("1", "train", "ann", "ml", "gpu", "normal"), wide("3", "train", "bob", "a", "ml", "normal")]
    unclear = wide("2", "train", "ann", "a", "ml", "gpu", "normal")
    trace = load(write(tmp_path, *known, unclear, head=WIDE))
    assert trace.jobs.id.tolist() == ["1", "3"]
    assert trace.quality["delimiter-unclear"] == 1


def test_all_bad_records_are_listed_at_once(tmp_path):
    bad = [line(job="2", limit="long"), line(job="3", submit="today"), line(job="4", limit="short"), line(job="5")]
    found, mistakes = read_or_list(write(tmp_path, line(), *bad), None)
    assert found is None
    assert [told.partition("sacct.txt, ")[2] for told in mistakes] == [
        "line 4, column Submit: 'today' is not a time like 2017-10-07 01:11:39",
        "line 3, column TimelimitRaw: 'long' cannot be read (and 1 more line)",
    ]


@pytest.mark.parametrize(
    ("missing", "rule"),
    [
        ("TimelimitRaw", "no-limit-column"),
        ("AllocTRES", "no-given-column"),
        ("NodeList", "no-nodes-column"),
        ("Eligible", "no-eligible-column"),
        ("User", "no-user-column"),
        ("Partition", "no-partition-column"),
    ],
)
def test_a_missing_column_is_told_as_one_and_not_as_what_users_did(tmp_path, missing, rule):
    """Where the column is there, a job without a limit is one of a user who asked none."""
    names = f"{HEAD}|NodeList|Eligible|Partition".split("|")
    values = f"{line(limit='')}|n1|2026-01-01T00:00:00|gpu".split("|")
    at = names.index(missing)
    head, row = ("|".join(parts[:at] + parts[at + 1 :]) for parts in (names, values))
    found = load(write(tmp_path, row, head=head)).quality
    assert found[rule] == 1
    assert f"column {missing} is missing" in next(f for f in found.findings if f.rule == rule).meaning
    assert (found["no-time-asked"] == 0) == (missing == "TimelimitRaw")
    whole = load(write(tmp_path, "|".join(values), head="|".join(names))).quality
    assert (whole[rule], whole["no-time-asked"]) == (0, 1)


def test_a_header_without_state_or_none_at_all_is_told(tmp_path):
    """The file is known for sacct's by what is left, or else by its separators."""
    names, values = HEAD.split("|"), line().split("|")
    head, row = ("|".join(parts[:3] + parts[4:]) for parts in (names, values))
    with pytest.raises(InputError, match="column State is missing"):
        load(write(tmp_path, row, head=head))
    with pytest.raises(InputError, match="the header line is missing"):
        load(write(tmp_path, line(job="2"), head=line()))
