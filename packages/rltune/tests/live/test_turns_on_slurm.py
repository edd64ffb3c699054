"""Taking turns on a real Slurm: who agreed gives way, its work goes on, nobody is lost and nobody runs twice."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from live_cases import dead, settings
from real_slurm import site_factors

from rltune.lab.experiment import checkpointing_job
from rltune.live.clock import SystemClock
from rltune.live.controller import Controller
from rltune.live.decide.rehearse import rehearse
from rltune.live.journal.store import Journal
from rltune.live.journal.story import story
from rltune.live.pinned_pipeline import pin_pipeline
from rltune.live.replay_cycle import replay
from rltune.live.see.backend import Change, ChangeKind

M40 = ("--gpus-per-node=m40:1", "--nodes=1", "--output=/dev/null", "--chdir=/")
K80 = "--gpus-per-node=k80:2"  # all of a node; of two options the last counts
TURNS = {"order": "srsf", "comment": "yields", "min_run": 0, "checkpoint": 1, "restart": 0}
WORK_S = 3.0
# A job that comes to its last checkpoint only when it is let: however slow the machine is, it runs until then.
PATIENT = """
import sys, time
sys.path.append(sys.argv.pop(1))
from checkpointing_job import Task, main
save = Task.save
def wait_then_save(task, done_s):
    while done_s >= task.work_s and not (task.folder / "may-end").exists():
        time.sleep(0.1)
    save(task, done_s)
Task.save = wait_then_save
main(sys.argv[1:])
"""


@pytest.fixture
def shared(tmp_path):
    """A folder that jobs write their checkpoints to."""
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    return folder


def rehearsed(steer="off"):
    """Return the settings, once all that they need is compiled: no job is to run for minutes until it is."""
    acting = settings(preempt=TURNS, cycle_s=1, steer=steer, health={"max_overruns": 1_000_000})
    rehearse(acting, pin_pipeline(acting))
    return acting


def controller(bed, path, steer="off"):
    """Make a controller that is dead to the next one, as if its process had been killed."""
    acting = Controller(bed.backend(), Journal.create(path), rehearsed(steer), SystemClock())
    acting.lock.keeper.me = dead()
    return acting


def worker(bed, shared, *options, work_s=WORK_S):
    """Start a long job that writes checkpoints, and wait until it has written one; it ends once it may."""
    (shared / "patient.py").write_text(PATIENT)
    beside = Path(checkpointing_job.__file__).parent
    command = f"{sys.executable} {shared}/patient.py {beside} {shared} {work_s} 1 0.5"
    number = int(bed.run("sbatch", "--parsable", "--time=600", *M40, *options, f"--wrap=exec {command}"))
    bed.wait_for("a checkpoint", (shared / f"{number}.json").exists)
    return number


def may_end(shared):
    (shared / "may-end").touch()


def lines(shared, number):
    told = (shared / f"{number}.log").read_text().split("\n")[:-1]
    return [(what, float(done)) for what, done, _ in map(str.split, told)]


def state(bed, number):
    return bed.job(number)["job_state"]


def until(bed, acting, done, timeout_s=300):
    """Let the controller go on, a cycle a second, until something is so."""
    deadline = time.monotonic() + timeout_s
    while not done():
        assert time.monotonic() < deadline, acting.journal.rows("SELECT kind, text FROM event")
        acting.cycle()
        time.sleep(0.5)


def assert_conserved(told, work_s=WORK_S):
    """Each start goes on from the last checkpoint, and the job ends once."""
    saved = 0.0
    for what, done in told:
        if what == "start":
            assert done == saved
        elif what == "checkpoint":
            assert done >= saved
            saved = done
    assert [what for what, _ in told].count("end") == 1
    assert told[-1] == ("end", work_s)


def test_a_job_that_agreed_gives_way_and_ends_once_with_its_work(testbed, tmp_path, shared):
    """The claimant overtakes a job that waits as well; the victim goes on from its checkpoint, at once."""
    acting = controller(testbed, tmp_path / "j.db")
    victim = worker(testbed, shared, "--comment=yields")
    waiting = testbed.submit(0.5, gpus=1, gpu_type="m40", limit_min=500)
    claimant = testbed.submit(1, gpus=1, gpu_type="m40", limit_min=1)
    until(testbed, acting, lambda: acting.brain.turns.open)
    may_end(shared)
    until(testbed, acting, lambda: state(testbed, claimant) == "COMPLETED")
    until(testbed, acting, lambda: all(state(testbed, job) == "COMPLETED" for job in (victim, waiting)))
    assert testbed.job(claimant)["start_time"] < testbed.job(waiting)["start_time"]
    told = lines(shared, victim)
    assert_conserved(told)
    assert [what for what, _ in told].count("start") == 2
    assert testbed.job(victim)["restart_cnt"] == 1
    ((outcome, freed_s),) = acting.journal.rows("SELECT outcome, freed_s FROM turn_end")
    assert outcome == "started"
    assert 0 <= freed_s < 30  # it does not wait for KillWait
    assert acting.journal.rows("SELECT displaced FROM spell WHERE job = ?", victim) == [(1,)]
    texts = [line.text for line in story(acting.journal, victim)]
    assert any("should give way" in text and "by srsf" in text for text in texts)
    assert any(text.startswith("requeue") and text.endswith("done") for text in texts)
    assert all(replay(acting.journal, number).same for number in range(1, acting.journal.last_cycle() + 1))


def test_two_turns_in_one_cycle_give_each_claimant_its_nodes(testbed, tmp_path, shared):
    """Both are commanded in the same cycle, since each claimant is led to nodes that the other may not use."""
    acting = controller(testbed, tmp_path / "j.db", steer="exclude")
    victims = [worker(testbed, shared, "--comment=yields", K80) for _ in range(2)]
    waiting = testbed.submit(0.5, gpus=2, gpu_type="k80", limit_min=500)
    claimants = [testbed.submit(1, gpus=2, gpu_type="k80", limit_min=minutes) for minutes in (1, 2)]
    until(testbed, acting, lambda: acting.brain.turns.open)
    assert {one.turn.claimant for one in acting.brain.turns.open} == set(claimants)
    may_end(shared)
    until(testbed, acting, lambda: all(state(testbed, job) == "COMPLETED" for job in (*claimants, *victims, waiting)))
    assert all(testbed.job(one)["start_time"] < testbed.job(waiting)["start_time"] for one in claimants)
    assert acting.journal.rows("SELECT outcome FROM turn_end") == [("started",)] * 2
    for victim in victims:
        assert_conserved(lines(shared, victim))


def test_a_job_that_did_not_agree_is_never_touched(testbed, tmp_path, shared):
    """Slurm would requeue it, for that is its default; so would --requeue."""
    acting = controller(testbed, tmp_path / "j.db")
    others = worker(testbed, shared, "--requeue", "--comment=yields-not")
    claimant = testbed.submit(1, gpus=1, gpu_type="m40", limit_min=1)
    for _ in range(3):
        acting.cycle()
    may_end(shared)
    until(testbed, acting, lambda: state(testbed, others) == "COMPLETED")
    assert testbed.job(others)["restart_cnt"] == 0
    assert [what for what, _ in lines(shared, others)].count("start") == 1
    assert acting.journal.rows("SELECT * FROM turn") == []
    testbed.wait_for("the other", lambda: state(testbed, claimant) == "COMPLETED")


def test_a_job_that_completed_just_now_is_not_run_again(testbed, shared):
    """What was decided on it comes too late; Slurm answers that all is well."""
    may_end(shared)
    done = worker(testbed, shared, "--comment=yields", work_s=1.0)
    testbed.wait_for("its end", lambda: state(testbed, done) == "COMPLETED")
    (outcome,) = testbed.backend().apply([Change(done, ChangeKind.REQUEUE)])
    assert outcome.done
    time.sleep(1)
    assert state(testbed, done) == "COMPLETED"
    assert [what for what, _ in lines(shared, done)].count("start") == 1


def test_killed_and_doubled_controllers_lose_nobody_and_run_nobody_twice(testbed, tmp_path, shared):
    """One is killed with the turn begun; another, that knows nothing of it, decides as well; a third goes on."""
    first, other = controller(testbed, tmp_path / "j.db"), controller(testbed, tmp_path / "other.db")
    victim = worker(testbed, shared, "--comment=yields")
    claimant = testbed.submit(1, gpus=1, gpu_type="m40", limit_min=1)
    until(testbed, first, lambda: first.brain.turns.open)
    other.cycle()
    first.journal.close()  # as if killed: nothing is given back
    may_end(shared)
    again = controller(testbed, tmp_path / "j.db")
    assert [turn.turn.claimant for turn in again.brain.turns.open] == [claimant]
    until(testbed, again, lambda: state(testbed, victim) == "COMPLETED")
    assert state(testbed, claimant) == "COMPLETED"
    assert_conserved(lines(shared, victim))
    assert testbed.job(victim)["restart_cnt"] == 1
    assert again.journal.rows("SELECT displaced FROM spell") == [(1,)]
    assert other.journal.rows("SELECT * FROM turn") == []


class Command:
    """`rltune control` in a process of its own, with a journal of its own."""

    def __init__(self, bed, folder, name):
        table = "\n".join(f"{key} = {json.dumps(value)}" for key, value in TURNS.items())
        (folder / "c.toml").write_text(
            f"steer = 'off'\n[preempt]\n{table}\n[advanced.health]\nmax_overruns = 1000000\n"
        )
        words = ["control", "--config", folder / "c.toml", "--mode", "act", "--partition", "gpu", "--policy", "saf"]
        words += ["--cycle", "0.5", "--testbed", bed.folder, "--journal", folder / f"{name}.db"]
        self.log = folder / f"{name}.log"
        with self.log.open("ab") as log:
            command = [sys.executable, "-c", "from rltune.cli import main; main()", *map(str, words)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    @property
    def alive(self):
        return self.process.poll() is None

    def end(self, sign):
        self.process.send_signal(sign)
        return self.process.wait(120)


def test_of_two_controllers_that_start_at_once_one_acts(testbed, tmp_path, shared):
    """Two processes, two journals: a job gives way once. The other is refused; when the first is killed it goes on."""
    rehearsed()
    victim = worker(testbed, shared, "--comment=yields")
    claimant = testbed.submit(1, gpus=1, gpu_type="m40", limit_min=1)
    both = [Command(testbed, tmp_path, name) for name in ("one", "two")]
    try:
        testbed.wait_for("one to be refused", lambda: not all(one.alive for one in both), 300)
        testbed.wait_for("the other to act", lambda: state(testbed, claimant) == "COMPLETED", 300)
        may_end(shared)
        testbed.wait_for("the victim's end", lambda: state(testbed, victim) == "COMPLETED", 300)
        (acts,), (refused,) = ([one for one in both if one.alive == alive] for alive in (True, False))
        assert refused.process.returncode == 2
        told = f"another controller is at work: process {acts.process.pid} on "
        assert told in refused.log.read_text()
        assert_conserved(lines(shared, victim))
        assert testbed.job(victim)["restart_cnt"] == 1
        holder = testbed.submit(600, gpus=1, gpu_type="m40", limit_min=60)
        testbed.wait_for("a start", lambda: state(testbed, holder) == "RUNNING")
        for minutes in (50, 40):
            testbed.submit(600, gpus=1, gpu_type="m40", limit_min=minutes)
        testbed.wait_for("numbers", lambda: any(site_factors(testbed).values()))
        acts.end(signal.SIGKILL)
        again = Command(testbed, tmp_path, "again")
        both.append(again)
        testbed.wait_for("it to take over", lambda: "cycle 1" in again.log.read_text(), 300)
        assert f"process {acts.process.pid} on " in again.log.read_text()
        assert " jobs are as an earlier controller left them; taken over" in again.log.read_text()
        assert again.end(signal.SIGTERM) == 0
        assert set(site_factors(testbed).values()) == {0}
        assert testbed.backend().observe().records == ()
    finally:
        for one in both:
            one.process.kill()
            one.process.wait()


class Killed(BaseException):
    """The end of a process, wherever it is."""


@pytest.mark.parametrize("before", [True, False], ids=["before the command", "after the command"])
def test_a_controller_killed_around_its_command_leaves_a_turn_that_the_next_settles(
    testbed, tmp_path, shared, monkeypatch, before
):
    """The turn is noted before Slurm hears of it. Nobody was stopped, or one was: the next one sees which."""
    first = controller(testbed, tmp_path / "j.db")
    victim = worker(testbed, shared, "--comment=yields")
    claimant = testbed.submit(1, gpus=1, gpu_type="m40", limit_min=1)
    apply = first.backend.apply

    def killed_at_requeue(changes):
        if not any(change.kind is ChangeKind.REQUEUE for change in changes):
            return apply(changes)
        if not before:
            apply(changes)
        raise Killed

    monkeypatch.setattr(first.backend, "apply", killed_at_requeue)
    with pytest.raises(Killed):
        until(testbed, first, lambda: first.brain.turns.open)
    first.journal.close()
    may_end(shared)
    again = controller(testbed, tmp_path / "j.db")
    assert [turn.turn.claimant for turn in again.brain.turns.open] == [claimant]
    until(testbed, again, lambda: all(state(testbed, job) == "COMPLETED" for job in (victim, claimant)))
    told = lines(shared, victim)
    assert_conserved(told)
    assert [what for what, _ in told].count("start") == testbed.job(victim)["restart_cnt"] + 1
    assert testbed.job(victim)["restart_cnt"] <= 1 + before
    assert again.journal.open_turns() == []
