"""A Slurm's history: in slices, resumable, and with every odd kind of record."""

import subprocess
import time

import numpy as np
import pytest

from rltune import trace
from rltune.errors import InputError
from rltune.live.slurm import sacct_history as history
from rltune.live.slurm.sacct_history import FIELDS, SEPARATOR, AskedSpan, Sacct, begin, ended_between, fetch


def record(job, end, name="n"):
    values = {"JobIDRaw": job, "JobID": job, "JobName": name, "State": "COMPLETED", "Submit": "10", "Start": "20"}
    values |= {"End": end, "ElapsedRaw": "5", "ReqTRES": "cpu=1,node=1", "AllocTRES": "cpu=1,node=1"}
    return SEPARATOR.join(values.get(name, "") for name in FIELDS)


class Recorded:
    """Answers as sacct does: every record of a job that was there in the slice, ended in it or not."""

    def __init__(self, records, fail_at=None):
        self.records, self.fail_at, self.asked = records, fail_at, []

    def ask(self, begin_s, end_s):
        if begin_s == self.fail_at:
            raise InputError("sacct failed: connection refused")
        self.asked.append((begin_s, end_s))
        return "".join(f"{line}\n" for start, end, line in self.records if start < end_s and end >= begin_s)


RECORDS = [
    (0, 100, record("1", "100")),
    (0, 250, record("2", "250")),  # in three slices
    (50, 10**9, record("3", "Unknown")),
    (150, 200, record("4", "200")),  # at the very edge
]


def ids(path):
    return [line.split(SEPARATOR)[0] for line in path.read_text().splitlines()[1:]]


def test_every_job_counts_once_however_many_slices_it_was_in(tmp_path):
    """It belongs to the one in which it ended; those without an end to the last."""
    sacct = Recorded(RECORDS)
    whole = fetch(AskedSpan(0, 300, 100), tmp_path, sacct)
    assert sacct.asked == [(0, 100), (100, 200), (200, 300)]
    assert ids(whole) == ["1", "2", "3", "4"]


def test_an_import_that_was_interrupted_goes_on_where_it_was(tmp_path):
    """What was fetched is not asked for again, and the result is the same."""
    span = AskedSpan(0, 300, 100)
    with pytest.raises(InputError, match="connection refused"):
        fetch(span, tmp_path, Recorded(RECORDS, fail_at=200))
    sacct = Recorded(RECORDS)
    assert ids(fetch(span, tmp_path, sacct)) == ["1", "2", "3", "4"]
    assert sacct.asked == [(200, 300)]


def test_a_draft_is_not_taken_for_a_slice(tmp_path):
    """A part that was being written when the machine died is fetched again."""
    (tmp_path / "0.txt.part").write_text("half")
    sacct = Recorded(RECORDS)
    fetch(AskedSpan(0, 100, 100), tmp_path, sacct)
    assert sacct.asked == [(0, 100)]


def test_what_was_begun_goes_on_until_what_was_then_now(tmp_path):
    """Asked again a day later, the span is the first one; another span is refused."""
    first = AskedSpan(0, 1000, 100)
    assert begin(tmp_path / "x", first, until_now=True) == first
    assert begin(tmp_path / "x", AskedSpan(0, 2000, 100), until_now=True) == first
    for other in (AskedSpan(0, 2000, 100), AskedSpan(100, 1000, 100), AskedSpan(0, 1000, 200)):
        with pytest.raises(InputError, match="holds an import that was begun from 1970-01-01T00:00:00 to"):
            begin(tmp_path / "x", other)


@pytest.mark.parametrize(("span", "message"), [((5, 5, 100), "before it begins"), ((0, 99, 5), "a minute or more")])
def test_spans_that_cannot_be(span, message):
    """One sentence each."""
    with pytest.raises(InputError, match=message):
        AskedSpan(*span)


def test_a_line_end_in_a_name_tears_no_record(tmp_path):
    """Slurm prints it as it is."""
    kept = list(ended_between(record("1", "5", name="two\nlines|") + "\n" + record("2", "6"), 0, 10, is_last=True))
    assert len(kept) == 2
    assert "two lines|" in kept[0]
    with pytest.raises(InputError, match="sacct printed what cannot be read: 'sacct: something'"):
        list(ended_between("sacct: something", 0, 10, is_last=True))


def test_slurmdbd_rests_as_long_as_a_question_took(tmp_path, monkeypatch):
    """And never longer than ten seconds."""
    rests = []
    done = subprocess.CompletedProcess([], 0, b"", b"")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: time.sleep(0.05) or done)
    fetch(AskedSpan(0, 300, 100), tmp_path, Sacct(rest=rests.append))
    assert len(rests) == 3
    assert all(0.05 <= rest <= history.LONGEST_REST_S for rest in rests)


def test_without_sacct_or_without_accounting(testbed):
    """Both are said in a sentence."""
    with pytest.raises(InputError, match="sacct could not be started"):
        Sacct(environment={"PATH": "/nowhere"}).ask(0, 100)
    with pytest.raises(InputError, match="this Slurm keeps no history"):
        Sacct(environment=testbed.environment).ask(1_700_000_000, 1_700_000_100)


def test_the_history_of_a_real_slurm(tmp_path, testbed_with_database):
    """Two nodes, an array, a het job, a requeue, a failure, no limit, odd names; what never ran is counted."""
    bed = testbed_with_database
    begun = int(time.time()) + 1
    time.sleep(1)  # what other tests left had ended before
    first = bed.submit(1, gpus=2, nodes=2, gpu_type="k80", limit_min=5, name="two")
    bed.submit(0, "--array=1-3%1", gpus=1, name="array")
    bed.run("sbatch", "--gpus-per-node=m40:1", "-o/dev/null", ":", "--gpus-per-node=k80:1", "--wrap=sleep 0")
    bed.submit(0, "--time=UNLIMITED", "--constraint=p100|k80", name="a|b\nc")
    bed.run("sbatch", "--job-name=fails", "--chdir=/", "--output=/dev/null", "--wrap=exit 3")
    long = bed.submit(100, gpus=4, nodes=2, gpu_type="p100", name="cancelled")
    never = bed.submit(100, gpus=4, nodes=2, gpu_type="p100", name="never")
    held = bed.submit(1, "--hold", name="held")
    bed.wait_for("the long one to run", lambda: bed.job(long)["job_state"] == "RUNNING")
    bed.run("scancel", str(never))
    bed.run("scontrol", "requeue", str(long))

    def ended(state):
        return sum(job["job_state"] == state for job in bed.jobs() if job["job_id"] >= first)

    bed.wait_for("the rest to end", lambda: (ended("COMPLETED"), ended("FAILED")) == (7, 1))
    bed.run("scancel", str(long), str(held))
    running = bed.submit(100, gpus=1, name="running")
    bed.wait_for("a start", lambda: bed.job(running)["job_state"] == "RUNNING")
    sacct = Sacct(environment=bed.environment, rest=lambda _: None)
    bed.wait_for("accounting to catch up", lambda: sacct.ask(begun, int(time.time()) + 1).count("RUNNING") == 1)
    found = trace.load(fetch(AskedSpan(begun, int(time.time()) + 1, 60), tmp_path, sacct), "sacct")
    jobs = found.jobs
    row = {name: i for i, name in enumerate(jobs.name.to_list())}
    assert (jobs.gpus[row["two"]], jobs.nodes[row["two"]], jobs.limit_s[row["two"]]) == (4, 2, 300)
    assert jobs.gpu_types.name_of(row["two"]) == "k80"
    assert sum(name == "array" for name in jobs.name.to_list()) == 3
    assert np.isnan(jobs.limit_s[row["a|b c"]])
    assert jobs.state.name_of(row["fails"]) == "failed"
    assert jobs.state.name_of(row["cancelled"]) == "killed"
    assert jobs.gpus[row["cancelled"]] == 8
    assert np.isnan(jobs.mem_gib).all()
    assert "running" not in row
    assert found.quality["het-part"] == 2
    assert found.quality["still-running"] == 1
    assert found.quality["never-started"] == 1
