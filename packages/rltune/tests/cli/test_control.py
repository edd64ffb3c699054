"""`rltune control` and `rltune journal` as a user runs them, on a real Slurm."""

import json
import os
import re
import signal
import threading
from types import SimpleNamespace

import pytest
from real_slurm import require_slurm, short_folder

from rltune import read_trace
from rltune.lab.testbed import Testbed
from rltune.live.journal.store import Journal
from rltune.live.see.backend import RECORD_NAME


@pytest.fixture(scope="module")
def bed():
    """One job holds all K80s, and three wait for them, the last the shortest; one has ended."""
    require_slurm()
    with Testbed.up(short_folder()) as up:
        holder = up.submit(600, gpus=2, gpu_type="k80", nodes=2, limit_min=60)
        up.wait_for("a start", lambda: up.job(holder)["job_state"] == "RUNNING")
        for minutes in (50, 40, 30):
            up.submit(600, gpus=2, gpu_type="k80", limit_min=minutes)
        ends = up.submit(2, gpus=1, gpu_type="m40")
        up.wait_for("an end", lambda: up.job(ends)["job_state"] == "COMPLETED")
        yield up


@pytest.fixture
def control(rltune, bed, tmp_path, monkeypatch):
    """Run `rltune control` on it, with a journal of the test's own.

    All of a test's commands run in one process that lives on, so they are known by one token: a command that has ended
    would else be taken for another controller that still holds the lock.
    """
    monkeypatch.setattr("rltune.live.holder.secrets", SimpleNamespace(token_hex=lambda _: "the test's"))
    return lambda *words: rltune("control", "--testbed", bed.folder, "--journal", tmp_path / "j.db", *words)


@pytest.fixture
def quick(tmp_path):
    """Words for many cycles in a short time: on a slow machine they may take longer than there is time for."""
    (tmp_path / "quick.toml").write_text("[advanced.health]\nmax_overruns = 1000000\n")
    return ("--config", tmp_path / "quick.toml", "--cycle", "0.2")


def priorities(bed):
    """Return those of waiting jobs; what the controller keeps of its own in Slurm is no job of anybody's."""
    return [j["priority"] for j in bed.jobs() if j["job_state"] == "PENDING" and j["name"] != RECORD_NAME]


def test_a_first_look_changes_nothing_and_tells(control, rltune, bed, tmp_path):
    """Shadow is the default; the journal then holds the decision, its reasons and each job's story."""
    said = control("--once")
    assert said.code == 0, said.err
    assert "3 waiting, 0 should start, no changes made" in said.err
    assert priorities(bed) == [1, 1, 1]
    journal = ("--journal", tmp_path / "j.db")
    table = rltune("journal", "show", *journal, "--cycle", 0).out
    assert [line.split()[:3] for line in table.splitlines()[2:5]] == [["1", "3", "4"], ["2", "2", "3"], ["3", "1", "2"]]
    story = rltune("journal", "story", 4, *journal).out
    assert "waits: no room for it now; rank 1 (Slurm's 3)" in story
    assert json.loads(rltune("journal", "story", 4, *journal, "--json").out)[0]["text"] in story
    assert rltune("journal", "replay", *journal).out == "cycle 1: the same, byte for byte\n"
    assert json.loads(rltune("journal", "show", *journal, "--json").out)["cycles"] == 1


def test_advice_is_commands_that_can_be_typed(control, bed, tmp_path):
    """On stdout and in a file, one a line; nothing is changed."""
    said = control("--mode", "advise", "--once", "--advice", tmp_path / "advice.sh")
    lines = said.out.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("scontrol update JobId=") for line in lines)
    assert (tmp_path / "advice.sh").read_text().splitlines() == lines
    assert priorities(bed) == [1, 1, 1]


def test_acting_and_releasing(control, bed, rltune, tmp_path):
    """By settings from a file: numbers are set, metrics written, and --release puts all back."""
    (tmp_path / "control.toml").write_text('mode = "act"\n[scope]\npartitions = ["gpu"]\n[numbers]\nband = 300\n')
    said = control("--config", tmp_path / "control.toml", "--once", "--metrics", tmp_path / "m.prom")
    assert "3 changes" in said.err, said.err
    assert sorted(priorities(bed)) == [100, 200, 300]
    calls = re.search(r'slurm_calls_total\{command="scontrol"\} (\d+)', (tmp_path / "m.prom").read_text())
    assert 2 <= int(calls[1]) <= 6  # a look, the record of what is ours, the numbers: however many jobs there are
    assert control("--release").code == 0
    assert priorities(bed) == [1, 1, 1]
    out = tmp_path / "history.csv"
    assert rltune("journal", "export", out, "--journal", tmp_path / "j.db").out == f"{out}: 1 job\n"
    assert read_trace(out).gpus.tolist() == [1]


def test_a_term_signal_ends_it_and_frees_all(control, quick, bed):
    """As systemd stops it: the cycle at hand is finished, everything is given back."""
    threading.Thread(target=_stop_when_it_acts, args=(bed,), daemon=True).start()
    said = control("--mode", "act", "--partition", "gpu", *quick)
    assert said.code == 0
    assert "stopped; everything given back" in said.err
    assert priorities(bed) == [1, 1, 1]


def _by(file, sign):
    file.write_text(f"def score(queue):\n    return {sign}queue.limit_s\n")
    return f"{file}:score"


def test_release_needs_no_policy(control, bed, tmp_path):
    """The file that the settings name is gone: jobs are given back all the same."""
    policy = _by(tmp_path / "mine.py", "-")
    config = tmp_path / "control.toml"
    config.write_text(f'mode = "act"\n[scope]\npartitions = ["gpu"]\n[pipeline]\npolicy = "{policy}"\n')
    assert control("--config", config, "--once").code == 0
    assert priorities(bed) != [1, 1, 1]
    (tmp_path / "mine.py").unlink()
    assert control("--config", config, "--once").code == 2
    said = control("--config", config, "--release")
    assert said.code == 0, said.err
    assert priorities(bed) == [1, 1, 1]


def test_a_hangup_signal_reloads_the_policy(control, quick, rltune, bed, tmp_path):
    """As `systemctl reload` does: told with the new hash, in effect at once; cycles of before are replayed."""
    file = tmp_path / "mine.py"
    policy = _by(file, "")
    threading.Thread(target=_reload_then_stop, args=(bed, file, tmp_path / "j.db"), daemon=True).start()
    said = control("--mode", "act", "--partition", "gpu", "--policy", policy, *quick)
    assert said.code == 0
    assert "was replaced on disk; still deciding by sha256" in said.err
    assert said.err.count(f"reload: policy {policy} was read again: now deciding by sha256") == 1
    journal = ("--journal", tmp_path / "j.db")
    cycles = json.loads(rltune("journal", "show", *journal, "--json").out)["cycles"]
    replayed = rltune("journal", "replay", 0, "--last", cycles, *journal).out.splitlines()
    assert len(replayed) == cycles
    assert all("the same, byte for byte" in line for line in replayed)


def _reload_then_stop(bed, file, journal):
    """Replace the policy when it acts; all is given back. When it acts again as before, reload, and see it turn."""
    try:
        bed.wait_for("changes", lambda: _order(bed))
        first = _order(bed)
        _by(file, "-")
        bed.wait_for("the trip", lambda: _health(journal).count("file of the policy was swapped") == 1)
        bed.wait_for("the recovery", lambda: "all is well again" in _health(journal) and _order(bed) == first)
        os.kill(os.getpid(), signal.SIGHUP)
        bed.wait_for("the other order", lambda: _order(bed) == first[::-1])
    finally:
        os.kill(os.getpid(), signal.SIGTERM)


def _order(bed):
    """Return the places of the jobs by their numbers; nothing if these do not tell."""
    now = priorities(bed)
    return sorted(range(len(now)), key=lambda place: -now[place]) if len(set(now)) == len(now) else []


def _health(journal):
    return "\n".join(text for (text,) in Journal.read(journal).rows("SELECT text FROM event WHERE kind = 'health'"))


def _stop_when_it_acts(bed):
    bed.wait_for("changes", lambda: priorities(bed) != [1, 1, 1])
    os.kill(os.getpid(), signal.SIGTERM)


def test_acting_for_nobody_is_refused(rltune):
    """One sentence, before anything is asked of Slurm."""
    said = rltune("control", "--mode", "act")
    assert said.code == 2
    assert "to act, name whose jobs may be touched" in said.err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--mode", "loud"), "mode"),
        (("--policy", "nosuch"), "no policy 'nosuch'"),
        (("--estimator", "oracle"), "nobody knows the true run times"),
        (("--guard", "often"), "guard 'often' is not understood"),
        (("--config", "nosuch.toml"), "cannot be read"),
        (("--release", "--journal", "/nosuch/j.db"), "not all could be given back"),
        (("--testbed", "/nosuch"), "there is no testbed here"),
    ],
)
def test_a_mistake_is_told_in_one_sentence(rltune, words, problem):
    """Exit code 2, no traceback."""
    said = rltune("control", "--once", *words)
    assert said.code == 2
    assert problem in said.err
    assert said.err.count("\n") == 1


def test_without_slurm_a_look_fails_and_says_so(rltune, monkeypatch, tmp_path):
    """Where there are no commands of Slurm's, the exit code of --once tells."""
    monkeypatch.setenv("PATH", str(tmp_path))
    said = rltune("control", "--once", "--journal", tmp_path / "j.db")
    assert said.code == 1
    assert "unreachable: scontrol could not be started" in said.err


def test_nothing_has_ended_yet(rltune, tmp_path):
    """An empty history is no history."""
    Journal.create(tmp_path / "j.db").close()
    said = rltune("journal", "export", tmp_path / "h.csv", "--journal", tmp_path / "j.db")
    assert said.code == 2
    assert "no job has been seen to end yet" in said.err


def test_a_journal_that_is_none(rltune, tmp_path):
    """All commands say the same."""
    for words in (("story", 1), ("replay",), ("show",), ("export", tmp_path / "h.csv")):
        said = rltune("journal", *words, "--journal", tmp_path / "none.db")
        assert said.code == 2
        assert "there is no journal" in said.err
