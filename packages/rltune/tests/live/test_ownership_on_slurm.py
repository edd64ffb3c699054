"""On a real Slurm: what is ours is told from Slurm alone, one controller holds the lock, exit 0 means all is back."""

import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace

import pytest
from live_cases import dead, settings
from real_slurm import EVERYWHERE, ThroughRest
from real_slurm import site_factors as factors
from typer.testing import CliRunner

from rltune.cli import app
from rltune.errors import InputError
from rltune.live.clock import SystemClock
from rltune.live.controller import Controller
from rltune.live.give_back import GiveBack
from rltune.live.holder import this_process
from rltune.live.journal.store import Journal
from rltune.live.keeper import Keeper, LockedError
from rltune.live.see.backend import RECORD_NAME, ChangeKind
from rltune.live.see.ownership import OwnRecords
from rltune.live.see.record_text import Claim, Holder

K80 = {"gpus": 2, "gpu_type": "k80"}
ELSEWHERE = Holder("elsewhere", 4711, token="theirs")
DEAD = dead()


WAYS = ["commands", "slurmrestd"] if EVERYWHERE else ["commands"]


@pytest.fixture(params=WAYS)
def way(request):
    """By which Slurm is reached; with RLTUNE_SLURM=all both."""
    return request.param


@pytest.fixture
def bed(testbed_with_database_everywhere, way):
    """All K80s are taken, so that jobs for them wait."""
    bed = testbed_with_database_everywhere
    holder = bed.submit(600, **K80, nodes=2, limit_min=60)
    bed.wait_for("a start", lambda: bed.job(holder)["job_state"] == "RUNNING")
    return ThroughRest(bed) if way == "slurmrestd" else bed


def set_number(bed, job, number):
    """Let the site, or another hand, add a number to a job's priority."""
    lever = f"Nice={-number}" if isinstance(bed, ThroughRest) else f"SiteFactor={number}"
    bed.run("scontrol", "update", f"JobId={job}", lever)


def by_its_way(bed):
    """Return the settings that a way needs: where slurmrestd is, and no steering where it knows no node lists."""
    steer = {} if ChangeKind.EXCLUDE_NODES not in bed.backend().cannot() else {"steer": "off"}
    return {**steer, "slurm": {"rest": bed.rest, "token": str(bed.token_file)}} if isinstance(bed, ThroughRest) else {}


def wait_in_line(bed, *limits_min):
    return [bed.submit(600, **K80, limit_min=minutes) for minutes in limits_min]


def controller(bed, path, me=None, backend=None, **sections):
    """Make a controller that an Operator runs, on this machine or another."""
    backend = backend or bed.backend(as_operator=True)
    acting = Controller(backend, Journal.create(path), settings(**by_its_way(bed), **sections), SystemClock())
    acting.lock.keeper.me = me or this_process()
    return acting


def release(bed, me=None, **more):
    return GiveBack(bed.backend(as_operator=True), me=me or this_process(), **more)()


def release_of(bed, tmp_path):
    """Spell the command: by Slurm's own it needs no settings, by slurmrestd no more than where that is."""
    file = tmp_path / "control.toml"
    if isinstance(bed, ThroughRest):
        place = bed.backend().place
        file.write_text(f'mode = "nonsense"\n[slurm]\nrest = "{place.url}"\ntoken = "{place.token_file}"\n')
    return ["control", "--release", "--testbed", str(bed.folder), "--config", str(file)]


def priorities(bed):
    """Return what squeue shows of all jobs that have not ended, records apart."""
    return {job.id: job.priority for job in bed.backend().observe().jobs if not job.ended}


def records(bed):
    return OwnRecords.of(bed.backend().observe())


def test_all_is_given_back_without_a_journal_from_another_machine(bed, tmp_path):
    """The controller died with its disk. By the record in Slurm, which names its holder, all is found."""
    jobs = wait_in_line(bed, 50, 40, 30)
    before = factors(bed)
    assert controller(bed, tmp_path / "j.db").cycle().changes == 3
    (tmp_path / "j.db").unlink()
    lock = records(bed).locks[0]
    assert (lock.user, lock.lock.holder.pid, lock.lock.partitions) == ("slurm", os.getpid(), ("gpu",))
    with pytest.raises(InputError, match=r"another controller is at work: process .* --take-over"):
        release(bed, ELSEWHERE)  # its holder may live, as far as another machine can know
    given = release(bed, ELSEWHERE, by_force=True)
    assert given.all_back
    assert given.changes == 3
    assert factors(bed) == before
    assert set(jobs) <= set(before)
    assert records(bed) == OwnRecords()


def test_exactly_ours_is_given_back(bed, tmp_path):
    """A number of the site's own is never touched, and one that a human set after us stays his."""
    jobs = wait_in_line(bed, 50, 40, 30, 20)
    set_number(bed, jobs[0], 77)
    acting = controller(bed, tmp_path / "j.db", DEAD)
    assert acting.cycle().changes == 3
    assert factors(bed)[jobs[0]] == 77
    set_number(bed, jobs[1], 4321)
    assert release(bed).all_back
    assert [factors(bed)[job] for job in jobs] == [77, 4321, 0, 0]


class Crash(BaseException):
    """The process is killed."""


@pytest.mark.parametrize("written", [0, 1, 3])
def test_a_crash_between_record_and_numbers_leaves_what_release_finds(bed, tmp_path, written):
    """Killed before the first number, after some, and before anybody could note that they were made."""
    jobs = wait_in_line(bed, 50, 40, 30)
    slurm = bed.backend(as_operator=True)

    class Dying:
        def __getattr__(self, name):
            return getattr(slurm, name)

        def apply(self, changes):
            slurm.apply(changes[:written])
            raise Crash

    with pytest.raises(Crash):
        controller(bed, tmp_path / "j.db", DEAD, Dying()).cycle()
    assert sum(factors(bed)[job] != 0 for job in jobs) == written
    given = release(bed)
    assert given.all_back
    assert given.changes == written
    assert set(factors(bed).values()) == {0}
    assert records(bed) == OwnRecords()


def test_a_second_crash_while_numbers_change_is_found_too(bed, tmp_path):
    """Between two numbers of one job the record says both: the old one and the new one are ours."""
    jobs = wait_in_line(bed, 50, 40)
    acting = controller(bed, tmp_path / "j.db", DEAD)
    acting.cycle()
    first = factors(bed)
    wait_in_line(bed, 5, 4, 3)
    backend = acting.backend
    apply, backend.apply = backend.apply, lambda changes: (apply(changes[::2]), (_ for _ in ()).throw(Crash))
    acting.brain.settings = settings(numbers={"slack": 0.0})
    with pytest.raises(Crash):
        acting.cycle()
    assert factors(bed) != first
    assert release(bed).all_back
    assert set(factors(bed).values()) == {0}
    assert set(jobs) <= set(first)


def test_one_controller_at_a_time_whatever_their_journals(bed, tmp_path):
    """Two journals are no way around the lock; the second changes nothing and says who holds it."""
    wait_in_line(bed, 50, 40, 30)
    one = controller(bed, tmp_path / "one.db")
    one.cycle()
    numbers = factors(bed)
    other = controller(bed, tmp_path / "other.db", ELSEWHERE)
    with pytest.raises(LockedError, match=r"holds the lock of partition gpu"):
        other.run()
    assert factors(bed) == numbers
    assert one.cycle().acting
    assert len(records(bed).locks) == 1
    assert one.release() == 0


def test_a_lost_journal_changes_nothing(bed, tmp_path):
    """A new one knows nothing, and the numbers are known to be ours all the same: none is written again."""
    wait_in_line(bed, 50, 40, 30)
    controller(bed, tmp_path / "lost.db", DEAD).cycle()
    numbers = factors(bed)
    again = controller(bed, tmp_path / "new.db")
    report = again.cycle()
    assert report.changes == 0
    assert any("lock of job" in event and "is gone" in event for event in report.events)
    assert any("3 jobs are as an earlier controller left them" in event for event in report.events)
    assert factors(bed) == numbers
    assert again.release() == 0
    assert set(factors(bed).values()) == {0}


def test_a_journal_from_elsewhere_gives_nothing_back_that_is_not_ours(bed, tmp_path):
    """Its jobs have the same numbers as ours, and other submit times or values."""
    jobs = wait_in_line(bed, 50, 40)
    acting = controller(bed, tmp_path / "j.db", DEAD)
    acting.cycle()
    known = acting.brain.holdings.copy()
    acting.release()
    set_number(bed, jobs[0], 123)
    elsewhere = known.copy()
    for job in jobs:
        for kind, hold in elsewhere.by_job.get(job, {}).items():
            elsewhere.by_job[job][kind] = replace(hold, submit_s=hold.submit_s - 10)
    for claims in (known, elsewhere):
        assert GiveBack(bed.backend(as_operator=True))(claims).changes == 0
    assert factors(bed)[jobs[0]] == 123


def test_a_record_that_somebody_cancels_gives_everything_back(bed, tmp_path):
    """Without it nobody else could know what is ours; later a new one is made, and it acts again."""
    wait_in_line(bed, 50, 40, 30)
    acting = controller(bed, tmp_path / "j.db")
    acting.cycle()
    bed.run("scancel", *(str(page.id) for page in records(bed).pages))
    report = acting.cycle()
    assert not report.acting
    assert any("of the record is gone from Slurm" in event for event in report.events)
    assert set(factors(bed).values()) == {0}
    assert any(acting.cycle().acting for _ in range(5))
    assert any(factors(bed).values())
    assert acting.release() == 0
    assert records(bed) == OwnRecords()


def test_a_record_that_somebody_overwrites_is_written_again_while_its_controller_lives(bed, tmp_path):
    """Nothing was lost: whoever lives knows what it said, and acts on."""
    wait_in_line(bed, 50, 40, 30)
    acting = controller(bed, tmp_path / "j.db")
    acting.cycle()
    numbers, before = factors(bed), records(bed)
    for one in (*before.locks, *before.pages):
        bed.run("scontrol", "update", f"JobId={one.id}", "Comment=what is this job?")
    assert acting.cycle().acting
    assert factors(bed) == numbers
    assert [page.page.claims for page in records(bed).pages] == [page.page.claims for page in before.pages]
    assert acting.release() == 0
    assert records(bed) == OwnRecords()


def test_a_record_that_was_overwritten_after_a_crash_is_named(bed, tmp_path):
    """What it said is not known any more: release names the job and the numbers, and does not end with 0."""
    jobs = wait_in_line(bed, 50, 40, 30)
    controller(bed, tmp_path / "j.db", DEAD).cycle()
    (page,) = records(bed).pages
    bed.run("scontrol", "update", f"JobId={page.id}", "Comment=")
    given = release(bed)
    assert not given.all_back
    assert f"record {page.id} (somebody has overwritten its text)" in str(given)
    if not isinstance(bed, ThroughRest):  # there a Nice may be the user's own
        assert set(given.unexplained) == {job for job in jobs if factors(bed)[job]}
        assert "3 jobs have a SiteFactor that no record explains, which was left alone" in str(given)


def test_who_was_taken_over_lets_go_of_nothing(bed, tmp_path):
    """Another machine found its holder dead. Back again it sees that, ends, and what was its own is the other's."""
    wait_in_line(bed, 50, 40, 30)
    slow = controller(bed, tmp_path / "slow.db")
    slow.cycle()
    numbers = factors(bed)
    quick = controller(bed, tmp_path / "quick.db", ELSEWHERE)
    quick.lock.by_force = True
    assert quick.cycle().changes == 0
    with pytest.raises(LockedError, match="process 4711 on elsewhere has taken over"):
        slow.run()
    assert factors(bed) == numbers
    assert quick.release() == 0
    assert set(factors(bed).values()) == {0}


def test_a_record_of_another_account_is_not_believed(bed, tmp_path):
    """Anybody can submit a job that calls itself a record; release names the account and does not end with 0."""
    jobs = wait_in_line(bed, 50)
    set_number(bed, jobs[0], 500)
    forger = Keeper(bed.backend(), ("gpu",), me=DEAD)
    forger.take()
    seen = bed.backend().observe()
    forger.note([Claim(jobs[0], ChangeKind.SITE_FACTOR, (500,), 0)], seen.taken_s, seen.taken_s)
    given = release(bed)
    assert given.foreign == ("root",)
    assert not given.all_back
    assert factors(bed)[jobs[0]] == 500
    assert release(bed, owner="root").all_back
    assert factors(bed)[jobs[0]] == 0


def test_a_lock_that_a_user_forged_keeps_nobody_away(bed, tmp_path):
    """Made by an account without rights, to the letter: a controller starts, acts, and release ends well."""
    jobs = wait_in_line(bed, 50, 40, 30)
    real = Keeper(bed.backend(), ("gpu",), me=ELSEWHERE)
    real.take()
    seen = bed.backend().observe()
    real.note([Claim(jobs[0], ChangeKind.SITE_FACTOR, (500,), 0)], seen.taken_s, seen.taken_s)
    texts = {record.text for record in bed.backend().observe().records}
    real.close()
    forged = [submit_record(bed, "games", text) for text in texts]
    if isinstance(bed, ThroughRest):  # which does not tell the account of Slurm itself
        with pytest.raises(LockedError, match="user games"):
            controller(bed, tmp_path / "j.db").lock.take()
        return
    ours = controller(bed, tmp_path / "j.db")
    ours.cycle()
    assert any(factors(bed).values())
    assert ours.release() == 0
    given = release(bed)
    assert (given.all_back, given.forgers) == (True, ("games",))
    assert set(factors(bed).values()) == {0}
    assert {record.id for record in bed.backend().observe().records} == set(forged)


def submit_record(bed, user, text):
    """Submit a held job that looks like a record."""
    about = ("--parsable", "--hold", "--output=/dev/null", "--chdir=/", f"--job-name={RECORD_NAME}")
    return int(bed.run(*bed.account(user), "sbatch", *about, f"--comment={text}", "--wrap=true"))


def running_tasks(bed, array):
    jobs = [job for job in bed.jobs() if job["array_job_id"] == array and job["job_state"] == "RUNNING"]
    return {job["array_task_id"] for job in jobs}


def test_jobs_that_sprio_does_not_show_are_given_back(bed, tmp_path):
    """Held, with a begin time, started, and tasks that left their array: squeue's priority tells what is left."""
    jobs = wait_in_line(bed, 50, 40, 30)
    array = bed.submit(600, "--array=1-3", gpus=1, gpu_type="m40", limit_min=20)
    bed.wait_for("a task", lambda: 1 in running_tasks(bed, array))
    wait_in_line(bed, 20)
    controller(bed, tmp_path / "j.db", DEAD).cycle()
    assert all(factors(bed)[job] for job in (*jobs, array))
    bed.run("scontrol", "hold", str(jobs[0]))
    bed.run("scontrol", "update", f"JobId={jobs[1]}", "StartTime=now+3600")
    bed.run("scancel", f"{array}_1")
    bed.run("scontrol", "update", f"JobId={array}_3", "TimeLimit=19")  # splits the task off
    bed.wait_for("the next task", lambda: running_tasks(bed, array) - {1})
    assert max(priorities(bed).values()) > 1
    assert release(bed).all_back
    bed.run("scontrol", "release", str(jobs[0]))
    bed.run("scontrol", "update", f"JobId={jobs[1]}", "StartTime=now")
    assert set(factors(bed).values()) == {0}
    assert set(priorities(bed).values()) == {1}


def require(bed, kind):
    """Skip where a way of reaching Slurm does not know such changes."""
    if kind in bed.backend().cannot():
        pytest.skip(f"slurmrestd of this release cannot change {kind}")


def test_a_list_of_nodes_is_named_while_its_job_runs_and_cleared_when_it_waits(bed, tmp_path):
    """Slurm clears none of a running job: exit code 3, and the record stays until it can be cleared."""
    require(bed, ChangeKind.EXCLUDE_NODES)
    job = bed.submit(600, "--begin=now+3600", gpus=2, gpu_type="p100", limit_min=60)
    slurm = bed.backend(as_operator=True)

    class Hasty:
        def __getattr__(self, name):
            return getattr(slurm, name)

        def observe(self):
            seen = slurm.observe()
            jobs = [replace(j, reason="None", begin_s=float("nan")) if j.id == job else j for j in seen.jobs]
            return replace(seen, jobs=tuple(jobs))

    controller(bed, tmp_path / "j.db", DEAD, Hasty()).cycle()
    assert bed.job(job)["excluded_nodes"]
    bed.run("scontrol", "update", f"JobId={job}", "StartTime=now")
    bed.wait_for("a start", lambda: bed.job(job)["job_state"] == "RUNNING")
    given = release(bed)
    assert given.running == (job,)
    assert not given.all_back
    assert "keep a list of nodes" in str(given)
    assert len(records(bed).pages) == 1
    bed.run("scontrol", "requeuehold", str(job))
    bed.wait_for("it to wait", lambda: bed.job(job)["job_state"] == "PENDING")
    assert release(bed).all_back
    assert not bed.job(job)["excluded_nodes"]
    assert records(bed) == OwnRecords()


def test_the_command_ends_with_what_is_left(bed, tmp_path):
    """`--release` needs no journal and no settings file: 0 = nothing is left, 4 = something is, 2 = somebody acts."""
    jobs = wait_in_line(bed, 50, 40)
    controller(bed, tmp_path / "j.db", DEAD, bed.backend()).cycle()
    command = [*release_of(bed, tmp_path), "--journal", str(tmp_path / "none.db")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert set(factors(bed).values()) == {0}
    assert not (tmp_path / "none.db").exists()
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 0
    assert "Slurm holds nothing of ours" in again.output
    assert set(jobs) <= set(factors(bed))


def test_giving_back_loads_no_compiler(tmp_path):
    """Whatever is broken of policies, models and settings cannot stop it: they are not even imported."""
    heavy = "{'numba', 'numpy', 'polars', 'pydantic', 'highspy'}"
    code = "import rltune.cli.control_release, rltune.live.give_back, rltune.live.slurm.client, sys; "
    told = subprocess.run(
        [sys.executable, "-c", f"{code}print({heavy} & set(sys.modules))"], capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == "set()"


@pytest.fixture
def full_disk(tmp_path):
    """A disk of a MiB; `fill()` leaves no byte of it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if (
        os.geteuid()
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], check=False).returncode
    ):
        pytest.skip("only root can mount a small disk")

    def fill():
        with suppress(OSError), (folder / "rest").open("wb", buffering=0) as file:
            while file.write(b"x" * 512):
                pass

    yield folder, fill
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_keeps_nothing_from_being_given_back(bed, full_disk, tmp_path):
    """The controller gives back and lives on; `--release` on the same disk finds and frees what another left."""
    folder, fill = full_disk
    wait_in_line(bed, 50, 40, 30)
    acting = controller(bed, folder / "j.db", DEAD, bed.backend())
    assert acting.cycle().changes == 3
    fill()
    command = [*release_of(bed, tmp_path), "--journal", str(folder / "j.db")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert set(factors(bed).values()) == {0}
    told = [event for _ in range(4) for event in acting.cycle().events]
    assert any("the journal cannot be written" in event for event in told)
    assert set(factors(bed).values()) == {0}


def test_without_rights_it_ends_with_one_sentence(bed, tmp_path):
    """An account that is no Operator: exit code 2, told once, nothing changed and no record left."""
    wait_in_line(bed, 50, 40, 30)
    through_rest = isinstance(bed, ThroughRest)
    plain = bed.backend_of("games") if through_rest else replace(bed.backend(), prefix=bed.account("games"))
    acting = controller(bed, tmp_path / "j.db", backend=plain)
    with pytest.raises(
        InputError, match=r"Slurm refuses all changes: .*(Invalid user id|permission denied).*AdminLevel=Operator"
    ):
        acting.run()
    assert set(factors(bed).values()) == {0}
    assert records(bed) == OwnRecords()


@pytest.mark.parametrize("as_operator", [False, True])
def test_users_are_told_who_moved_their_job(bed, tmp_path, as_operator):
    """An Administrator writes AdminComment, never over another's, and takes it back; an Operator is refused once."""
    require(bed, ChangeKind.ADMIN_COMMENT)
    jobs = wait_in_line(bed, 50, 40, 30)
    bed.run("scontrol", "update", f"JobId={jobs[2]}", "AdminComment=ask me first")
    backend = bed.backend(as_operator=as_operator)
    acting = controller(bed, tmp_path / "j.db", backend=backend, tell_users=True)
    report = acting.cycle()
    assert report.changes == 3
    told = {job.id: job.admin_comment for job in backend.observe().pending}
    refused = [event for event in report.events if "users are not told" in event]
    if as_operator:
        assert len(refused) == 1
        assert told[jobs[0]] == ""
    else:
        assert not refused
        number = "Nice -" if isinstance(bed, ThroughRest) else "SiteFactor "
        assert told[jobs[0]].startswith(f"rltune: place 3 of 3, 1 by Slurm alone; {number}")
    assert told[jobs[2]] == "ask me first"
    assert acting.release() == 0
    left = {job.id: job.admin_comment for job in backend.observe().pending}
    assert left == {**dict.fromkeys(left, ""), jobs[2]: "ask me first"}


def test_what_only_a_journal_knows_is_written_into_the_record(bed, tmp_path):
    """An earlier version left numbers and no record: the first look takes them over, and then no journal is needed."""
    wait_in_line(bed, 50, 40, 30)
    controller(bed, tmp_path / "j.db", DEAD).cycle()
    bed.run("scancel", *(str(record.id) for record in bed.backend().observe().records))  # as if there had been none
    again = controller(bed, tmp_path / "j.db", DEAD)
    assert again.cycle().changes == 0
    given = release(bed)
    assert given.all_back
    assert given.changes == 3
    assert set(factors(bed).values()) == {0}
