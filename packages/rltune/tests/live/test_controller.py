import json
from dataclasses import replace

import pytest
from live_cases import NOW, MemoryCluster, dead, job, running, settings, snapshot

from rltune.live.controller import Controller
from rltune.live.journal.store import Journal
from rltune.live.replay_cycle import replay
from rltune.live.see.backend import ChangeKind, ChangeOutcome

FULL = (running(100, "n0", 4), running(101, "n1", 4))
QUEUE = (*FULL, job(1, 1, 60), job(2, 1, 10), job(3, 2, 30))


class HandClock:
    """A clock that goes on when told to."""

    def __init__(self):
        self.passed = 0.0
        self.woken = False
        self.waits = []

    def now_s(self):
        return NOW + self.passed

    def elapsed_s(self):
        return self.passed

    def wait(self, seconds):
        self.waits.append(seconds)
        self.passed += seconds

    def wake(self):
        self.woken = True


class Rig:
    """A controller on a cluster in memory."""

    def __init__(self, folder, jobs=QUEUE, **sections):
        self.cluster = MemoryCluster(snapshot(jobs))
        self.clock = HandClock()
        self.path = folder / "journal.db"
        self.said, self.advice = [], []
        self.settings = settings(**sections)
        self.start()

    def start(self, **more):
        """Start a controller, as after a crash: it knows what the journal knows."""
        self.journal = Journal.create(self.path)
        self.controller = Controller(
            self.cluster,
            self.journal,
            self.settings,
            self.clock,
            say=self.said.append,
            advise=self.advice.extend,
            **more,
        )
        if self.controller.lock:
            self.controller.lock.keeper.me = dead()  # to the next one

    def cycle(self, minutes=1):
        report = self.controller.cycle()
        self.clock.passed += 60 * minutes
        self.cluster.pass_time(60 * minutes)
        return report

    def jobs(self):
        return {j.id: j for j in self.cluster.now.jobs}


@pytest.fixture
def rig(tmp_path):
    return lambda **more: Rig(tmp_path, **more)


def as_before(rig, jobs=QUEUE):
    """Tell whether every job has what it had."""
    return rig.cluster.now.jobs == tuple(jobs)


def test_a_cycle_orders_the_queue_and_the_next_changes_nothing(rig):
    """The shortest job is on top; what is so already is not written again."""
    r = rig()
    first, second = r.cycle(), r.cycle()
    assert first.changes == 3
    by_priority = sorted((j for j in r.jobs().values() if j.pending), key=lambda j: -j.priority)
    assert [j.id for j in by_priority] == [2, 1, 3]
    assert second.changes == 0
    assert len(r.cluster.batches) == 1


def test_shadow_and_advise_never_write(rig):
    """Nothing reaches the cluster; advice is said and kept."""
    shadow = rig(mode="shadow")
    shadow.cycle()
    assert not shadow.cluster.batches
    advise = rig(mode="advise")
    advise.cycle()
    assert not advise.cluster.batches
    assert advise.advice
    assert advise.journal.rows("SELECT count(*) FROM change WHERE advised")[0][0] == len(advise.advice)


def test_advice_that_was_followed_survives_a_restart(rig):
    """Commands typed by the operator between two runs are known for what they are: nothing new is advised."""
    r = rig(mode="advise")
    r.cycle()
    r.cluster.apply([intent.change for intent in r.controller.brain.advised.values()])
    r.start()
    r.advice.clear()
    r.cycle()
    assert not r.advice
    assert len(r.journal.holdings()) == 3


def test_a_change_is_noted_before_it_is_made(rig):
    """Whoever kills the process in the middle of the write finds the intent in the journal."""
    r = rig()

    def die(changes):
        raise KeyboardInterrupt

    r.cluster.apply = die
    with pytest.raises(KeyboardInterrupt):
        r.cycle()
    noted = r.journal.rows("SELECT count(*) FROM change LEFT JOIN outcome ON change = change.id WHERE change IS NULL")
    assert noted[0][0] == 3
    assert len(Journal.read(r.path).holdings()) == 3


def test_release_gives_every_job_back(rig):
    """After a crash a new process, knowing only the journal, leaves all as Slurm alone would have it."""
    r = rig()
    r.cycle()
    assert not as_before(r)
    r.start()
    assert r.controller.release() == 0
    assert as_before(r)
    assert not len(r.journal.holdings())


def test_release_tells_what_it_could_not_free(rig):
    """A job that refuses is counted, stays in the journal, and is freed by the next try."""
    r = rig()
    r.cycle()
    r.cluster.refuse = {2: "slurmctld is busy"}
    assert r.controller.release() == 1
    r.cluster.refuse = {}
    r.start()
    assert r.controller.release() == 0
    assert as_before(r)


def test_a_stop_gives_everything_back(rig):
    """SIGTERM ends after the cycle at hand; nothing stays changed."""
    r = rig()
    r.clock.wait = lambda _: r.controller.stop()
    r.controller.run()
    assert as_before(r)
    assert r.clock.woken
    assert r.said[-1] == "stopped; everything given back"


def test_a_bug_gives_everything_back_too(rig):
    """Whatever is raised in a cycle, jobs are not left as they are."""
    r = rig()
    r.cycle()

    def broken():
        r.cluster.observe = MemoryCluster.observe.__get__(r.cluster)
        raise ZeroDivisionError

    r.cluster.observe = broken
    with pytest.raises(ZeroDivisionError):
        r.controller.run()
    assert as_before(r)


def test_the_cycle_keeps_its_pace(rig):
    """What a cycle took is taken off the wait."""
    r = rig(mode="shadow")
    r.controller.brain.on = lambda _: setattr(r.clock, "passed", r.clock.passed + 7.0) or []
    r.clock.wait = lambda seconds: (r.clock.waits.append(seconds), r.controller.stop())
    r.controller.run()
    assert r.clock.waits == [53.0]


def test_an_unreachable_cluster_is_borne_and_told(rig):
    """Nothing raises; after two failures it lets go as soon as it can."""
    r = rig()
    r.cycle()
    r.cluster.broken = "slurmctld does not answer"
    assert r.cycle().outcome == "failed"
    assert "cycle failed" in str(r.cycle())
    r.cluster.broken = ""
    report = r.cycle()
    assert report.outcome == "ok"
    assert not report.acting
    assert as_before(r)


def test_a_journal_that_cannot_be_written_gives_everything_back(rig):
    """The disk is full: nothing new is changed, all is given back, it is said once, and later it goes on."""
    r = rig()
    r.cycle()
    assert not as_before(r)
    pages = r.journal.rows("PRAGMA page_count")[0][0]
    r.journal.rows(f"PRAGMA max_page_count = {pages}")
    reports = [r.cycle() for _ in range(30)]
    failed = [report for report in reports if report.outcome == "failed"]
    assert failed
    assert as_before(r)
    assert sum("the journal cannot be written" in event for report in failed for event in report.events) == 1
    r.journal.rows("PRAGMA max_page_count = 1000000")
    assert any(r.cycle().acting for _ in range(10))


def test_a_policy_that_raises_is_borne(rig, tmp_path):
    """Whatever a site's own policy raises: all is given back, it is said once, and the controller lives on."""
    own = tmp_path / "own.py"
    flag = tmp_path / "broken"
    own.write_text(
        "from pathlib import Path\n"
        "def score(queue):\n"
        f"    if Path({str(flag)!r}).exists(): raise ZeroDivisionError('no sense')\n"
        "    return queue.estimate_s\n"
    )
    r = rig(pipeline={"policy": f"{own}:score"})
    assert r.cycle().acting
    flag.touch()
    told = [event for _ in range(3) for event in r.cycle().events]
    assert sum("no sense" in event for event in told) == 1
    assert as_before(r)
    flag.unlink()
    assert any(r.cycle().acting for _ in range(10))


def test_a_cluster_that_refuses_everything_trips(rig):
    """Without rights nothing can be ordered: said at once, with Slurm's own words."""
    r = rig()
    r.cluster.refuse = {j.id: "Access/permission denied" for j in r.cluster.now.pending}
    report = r.cycle()
    assert not report.acting
    assert any("Slurm refuses all changes: Access/permission denied" in event for event in report.events)


def test_an_order_that_slurm_does_not_hold_trips(rig):
    """It says that it took every number and holds none: found by reading back, and after three times all is let go."""
    r = rig()
    r.cluster.apply = lambda changes: tuple(ChangeOutcome(change) for change in changes)
    told = [event for _ in range(4) for event in r.cycle().events]
    assert any("of the first are not where they should be" in event for event in told)
    assert sum("the order is not the one meant, 3 times in a row" in event for event in told) == 1
    assert not r.controller.brain.acting


def test_what_another_hand_changes_right_after_us_is_found_at_once(rig):
    """Between the write and the look of the next cycle lies a minute; what was written is read back before that."""
    r = rig()
    apply = r.cluster.apply

    def meddled(changes):
        outcomes = apply(changes)
        r.cluster.edit(1, site_factor=4711)
        return outcomes

    r.cluster.apply = meddled
    assert any("1 changed by another hand (job 1)" in event for event in r.cycle().events)


def test_a_write_that_broke_off_is_made_good(rig):
    """The cluster vanished while changes were made: what was made is found out by the next look."""
    r = rig()
    broken = MemoryCluster.apply.__get__(r.cluster)

    def breaks_off(changes):
        broken(changes[:1])
        r.cluster.broken = "connection reset"
        return broken(changes)

    r.cluster.apply = breaks_off
    r.cycle()
    r.cluster.apply, r.cluster.broken = broken, ""
    r.cycle()
    assert sum(j.site_factor != 0 for j in r.jobs().values()) == 3
    r.controller.release()
    assert as_before(r)


ORDERS = ((60.0, 7200.0, 600.0), (7200.0, 60.0, 600.0), (600.0, 7200.0, 60.0))  # limits, by job


def reorder(r, limits_s):
    """Let users change their limits, and so the order."""
    for number, limit_s in enumerate(limits_s, 1):
        r.cluster.edit(number, limit_s=limit_s)
    return r.cycle()


@pytest.mark.parametrize("steps", [1, 2])
def test_numbers_that_slurm_forgot_are_still_ours(rig, steps):
    """slurmctld came back with an older state: older numbers, under the newest record, or with a record as old."""
    r = rig()
    r.cycle()
    jobs, records = r.cluster.now.jobs, dict(r.cluster.records)
    for limits_s in ORDERS[:steps]:
        assert reorder(r, limits_s).changes
    assert {j.id: j.site_factor for j in r.cluster.now.pending} != {j.id: j.site_factor for j in jobs if j.pending}
    r.cluster.now = replace(r.cluster.now, jobs=jobs)
    if steps > 1:
        r.cluster.records = records
    for limits_s in ORDERS:
        reorder(r, limits_s)
    assert r.controller.release() == 0
    assert {j.site_factor for j in r.cluster.now.pending} == {0}


def test_every_decision_can_be_made_again(rig):
    """Byte for byte, with our changes in the snapshot, after a queue that moved."""
    r = rig(pipeline={"policy": "wfp3"})
    for minute in range(4):
        r.cycle()
        r.cluster.now = replace(r.cluster.now, jobs=(*r.cluster.now.jobs, job(50 + minute, 1, 5 + minute)))
    assert [replay(r.journal, number).same for number in range(1, 5)] == [True] * 4


def test_a_replay_that_differs_names_the_jobs(rig):
    """A decision that was tampered with is found out, job by job."""
    from rltune.live.journal.packing import pack_decision, unpack_decision

    r = rig()
    r.cycle()
    row = r.journal.cycle(1)
    made = unpack_decision(row.decision)
    forged = replace(made, waiting=(replace(made.waiting[0], score=0.5), *made.waiting[1:]))
    r.journal.add_cycle(replace(row, decision=pack_decision(forged)))
    result = replay(r.journal, 2)
    assert not result.same
    assert result.differing == (made.waiting[0].job,)


def test_a_function_from_a_file_decides_and_replays(rig, tmp_path):
    """As any other policy."""
    file = tmp_path / "mine.py"
    file.write_text("def score(queue):\n    return queue.gpus\n")
    r = rig(pipeline={"policy": f"{file}:score"})
    r.cycle()
    assert replay(r.journal, 0).same


def test_history_is_learnt_from_jobs_seen_to_end(rig):
    """Without accounting, the controller's own record of ended jobs makes the estimates, in replay too."""
    ended = [
        replace(running(i, "n0", 1, minutes=60), state="COMPLETED", end_s=NOW - 600 + 30.0, user="bob", name="tiny")
        for i in range(200, 260)
    ]
    r = rig(jobs=(*QUEUE, *ended, job(4, 1, 60, user="bob", name="tiny")), pipeline={"estimator": "history"})
    r.cycle()
    assert r.journal.rows("SELECT count(*) FROM ended")[0][0] == 60
    r.start()
    r.cycle()
    from rltune.live.journal.packing import unpack_decision

    estimate = unpack_decision(r.journal.cycle(0).decision).by_job[4].estimate_s
    assert estimate < 300  # the limit is an hour, such jobs took half a minute
    assert replay(r.journal, 0).same


def test_the_journal_keeps_finished_jobs_once(rig):
    """Slurm shows an ended job for minutes; it is recorded once, with its true times."""
    r = rig()
    r.cycle()
    r.cluster.edit(100, state="COMPLETED", end_s=NOW + 30.0)
    r.cycle()
    r.cycle()
    rows = r.journal.rows("SELECT job, start_s, end_s, state FROM ended")
    assert rows == [(100, NOW - 600.0, NOW + 30.0, "completed")]


def test_a_job_that_starts_and_ends_before_the_next_look_was_acted_on(rig):
    """The canary's best would else be counted among the others, and one that does well would be found to do worse."""
    r = rig()
    r.cycle()
    for one, start_s in ((2, 10.0), (3, -10.0)):
        r.cluster.edit(one, state="COMPLETED", start_s=NOW + start_s, end_s=NOW + 50.0)
    r.cycle()
    assert dict(r.journal.rows("SELECT job, acted FROM ended")) == {2: 1, 3: 0}  # job 3 had started before


def test_a_job_that_was_given_back_before_it_started_was_not_acted_on(rig):
    """What counts is what it had when it started."""
    r = rig()
    r.cycle()
    r.controller.release()
    r.controller.brain.stopped = "for the test"
    r.cycle()
    r.cluster.edit(2, state="COMPLETED", start_s=NOW + 130.0, end_s=NOW + 150.0)
    r.cycle()
    assert r.journal.rows("SELECT job, acted FROM ended") == [(2, 0)]


def test_a_canary_that_does_worse_rolls_itself_back(rig):
    """Jobs acted on waited longer than the others of the same time: all is given back, and it stays so."""
    r = rig(canary={"share": 0.5, "min_jobs": 20})
    r.cycle()
    assert not as_before(r)
    _record_ended(r, acted_wait_s=5000.0, other_wait_s=50.0)
    report = r.cycle()
    assert any("canary is rolled back" in event for event in report.events)
    assert as_before(r)
    assert not r.cycle().acting


def test_a_canary_that_does_no_worse_goes_on(rig):
    """Equal waits are no reason to stop."""
    r = rig(canary={"share": 0.5, "min_jobs": 20})
    _record_ended(r, acted_wait_s=50.0, other_wait_s=50.0)
    assert r.cycle().acting


def test_a_partition_canary_is_compared_with_its_own_past(rig):
    """Jobs of that partition from before it was acted on are the yardstick."""
    r = rig(canary={"partition": "gpu", "min_jobs": 20}, scope={"partitions": ["gpu", "sla"]})
    _record_ended(r, acted_wait_s=5000.0, other_wait_s=50.0, others_before_s=100_000.0)
    assert not r.cycle().acting


def _record_ended(r, acted_wait_s, other_wait_s, others_before_s=-3.0):
    """Put 40 ended jobs of each kind into the journal."""
    from rltune.live.journal.ended import Ended

    for acted, wait_s, before_s in ((True, acted_wait_s, 0.0), (False, other_wait_s, others_before_s)):
        ended = []
        for i in range(40):
            submit = NOW - 20_000.0 + 7.0 * i - before_s
            start = submit + wait_s + i % 7
            one = replace(job(1000 + i + 100 * acted), state="COMPLETED", submit_s=submit)
            ended.append(Ended(replace(one, start_s=start, end_s=start + 600.0), 20_000, acted))
        r.journal.add_ended(ended)


def test_the_gain_of_acting_is_estimated_from_what_was_seen(rig):
    """Long jobs that Slurm lets go first and ours lets go last: the replay of both says what that wins."""
    from rltune.live.decide.gain import Gain
    from rltune.live.journal.ended import Ended

    r = rig(jobs=(), mode="shadow", gain={"every_s": 60})
    r.cycle(minutes=200)  # who came before the first look does not count
    ended = []
    for i in range(30):
        run = 3600.0 if i < 3 else 60.0
        one = job(1000 + i, 8, run / 60, submit_s=NOW + 1000.0, state="COMPLETED")
        ended.append(Ended(replace(one, start_s=NOW + 2000.0, end_s=NOW + 2000.0 + run), 20_000 - i))
    r.journal.add_ended(ended)
    gain = next(event for event in r.cycle().events if "replayed" in event)
    assert "30 jobs replayed" in gain
    assert Gain.share_told(gain) > 0.5


def test_metrics_are_exported(rig, tmp_path):
    """Calls by command, cycles, changes and the rest stand in a file that Prometheus's node exporter reads."""
    from rltune.live.prometheus import Metrics

    r = rig()
    file = tmp_path / "rltune.prom"
    r.start(metrics=Metrics(file))
    r.cycle()
    text = file.read_text()
    for line in (
        'slurm_calls_total{command="squeue"} 3.0',  # twice to take the lock
        'slurm_calls_total{command="sbatch"} 2.0',  # the lock, and a page of the record
        'slurm_calls_total{command="scontrol"} 4.0',
        'rltune_changes_total{kind="site-factor",outcome="done"} 3.0',
        "rltune_cycle_seconds_count 1.0",
        "rltune_waiting_jobs 3.0",
        "rltune_acting 1.0",
    ):
        assert line in text


def test_the_journal_is_bounded(rig):
    """Old cycles go after an hour or more, changes of jobs that are still held stay."""
    r = rig(journal={"keep_days": 0.01})
    r.cycle()
    for _ in range(3):
        r.cycle(minutes=61)
    assert r.journal.rows("SELECT min(id) FROM cycle")[0][0] > 1
    assert len(r.journal.holdings()) == 3
    r.controller.release()
    assert as_before(r)


def test_settings_are_kept_with_the_run(rig):
    """Whoever reads the journal knows by which settings, version and source it was written."""
    r = rig()
    run = r.journal.run(1)
    assert json.loads(run.settings)["pipeline"]["policy"] == "saf"
    assert run.version
    assert run.code


def test_jobs_are_led_to_nodes_for_one_cycle(rig):
    """A job that should start is led; in the next cycle the list is given back."""
    r = rig(jobs=(running(100, "n0", 3), job(1, 1)))
    r.cycle()
    assert r.jobs()[1].excluded_nodes == ("n1",)
    r.cycle()
    assert r.jobs()[1].excluded_nodes == ()
    assert {c.kind for c in r.cluster.batches[-1]} == {ChangeKind.EXCLUDE_NODES}


@pytest.mark.parametrize("nonsense", ["queue.estimate_s * float('nan')", "queue.estimate_s[:-1]", "None", "'first'"])
def test_a_policy_that_returns_nonsense_trips(rig, tmp_path, nonsense):
    """No number, a list of the wrong length, no list: all is given back, it is said once, and later it goes on."""
    own, flag = tmp_path / "own.py", tmp_path / "broken"
    own.write_text(
        "from pathlib import Path\n"
        "def score(queue):\n"
        f"    return {nonsense} if Path({str(flag)!r}).exists() else queue.estimate_s\n"
    )
    r = rig(pipeline={"policy": f"{own}:score"})
    assert r.cycle().acting
    flag.touch()
    told = [event for _ in range(3) for event in r.cycle().events]
    assert sum("no decision could be made" in event for event in told) == 1
    assert as_before(r)
    flag.unlink()
    assert any(r.cycle().acting for _ in range(10))


def test_a_swapped_policy_trips(rig, tmp_path):
    """Somebody replaced its file: all is given back, it is said, and later it goes on with what it had read."""
    own = tmp_path / "own.py"
    own.write_text("def score(queue):\n    return queue.estimate_s\n")
    r = rig(pipeline={"policy": f"{own}:score"})
    assert r.cycle().acting
    own.write_text("def score(queue):\n    return -queue.estimate_s\n")
    reports = [r.cycle() for _ in range(5)]
    assert not reports[0].acting
    told = [event for report in reports for event in report.events]
    assert sum("the file of the policy was swapped; not acting" in event for event in told) == 1
    assert reports[-1].acting


def test_cycles_that_take_too_long_trip(rig):
    """Three in a row that take longer than from one look to the next."""
    r = rig(cycle_s=1e-6)
    reports = [r.cycle() for _ in range(3)]
    assert any("cycles take longer" in event for event in reports[2].events)
    assert not r.controller.brain.acting
    assert as_before(r)


def test_many_refusals_trip(rig):
    """Slurm takes some changes and refuses those of ten jobs that still wait."""
    jobs = (*FULL, *(job(i, 1, 10 * i) for i in range(1, 25)))
    r = rig(jobs=jobs)
    r.cluster.refuse = dict.fromkeys(range(1, 13), "Job violates accounting/QOS policy")
    report = r.cycle()
    assert any("Slurm refuses changes of 12 jobs" in event for event in report.events)
    r.cluster.refuse = {}
    r.cycle()
    assert as_before(r, jobs)


def test_an_error_that_stays_the_same_is_said_once(rig):
    """A controller without a Slurm does not fill the log."""
    r = rig(mode="shadow")
    r.cluster.broken = "squeue could not be started: No such file or directory"
    for _ in range(5):
        r.cycle()
    assert sum("squeue could not be started" in line for line in r.said) == 1


def test_any_error_gives_everything_back(rig):
    """Not only exceptions that a program expects: also an interrupt, or a machine without memory."""
    for error in (MemoryError, KeyboardInterrupt, SystemExit):
        r = rig()
        r.cycle()
        assert not as_before(r)

        def broken(r=r, error=error):
            r.cluster.observe = MemoryCluster.observe.__get__(r.cluster)
            raise error

        r.cluster.observe = broken
        with pytest.raises(error):
            r.controller.run()
        assert as_before(r)
        assert not r.cluster.records
        r.journal.close()
        r.path.unlink()


def test_a_canary_that_does_no_worse_is_widened(rig):
    """Twice: from a third to all, which ends it. Each step is a run of its own in the journal, and can be replayed."""
    r = rig(canary={"share": 0.4, "min_jobs": 20})
    r.cycle()
    _record_ended(r, acted_wait_s=50.0, other_wait_s=5000.0)
    report = r.cycle()
    assert any("no worse than allowed; from now on all jobs" in event for event in report.events)
    assert r.cycle().acting
    assert not r.controller.settings.canary.on
    assert all(replay(r.journal, number).same for number in (1, 2, 3))
    r.cycle()
    assert all(one.site_factor for one in r.jobs().values() if one.pending)


def test_a_canary_that_must_not_grow_does_not(rig):
    """The operator said so."""
    r = rig(canary={"share": 0.4, "min_jobs": 20, "widen": False})
    _record_ended(r, acted_wait_s=50.0, other_wait_s=5000.0)
    r.cycle()
    assert r.controller.settings.canary.share == 0.4


def test_what_slurm_does_not_hold_is_noted_by_job_and_cause(rig, tmp_path):
    """In metrics and in the job's story: one that was refused and waits, and one that has started meanwhile."""
    from rltune.live.journal.story import story
    from rltune.live.prometheus import Metrics

    r = rig()
    r.start(metrics=Metrics(tmp_path / "rltune.prom"))
    r.cluster.refuse = {1: "slurmctld is busy", 3: "Job is no longer pending execution"}
    apply = r.cluster.apply

    def started_meanwhile(changes):
        outcomes = apply(changes)
        r.cluster.edit(3, state="RUNNING")
        return outcomes

    r.cluster.apply = started_meanwhile
    r.cycle()
    text = (tmp_path / "rltune.prom").read_text()
    assert 'rltune_read_back_differences_total{cause="refused by Slurm"} 1.0' in text
    assert 'rltune_read_back_differences_total{cause="started or ended meanwhile"} 1.0' in text
    assert any("started or ended meanwhile" in line.text for line in story(r.journal, 3))
    assert any("refused by Slurm" in line.text for line in story(r.journal, 1))
    r.cluster.apply, r.cluster.refuse = apply, {}
    assert r.cycle().refused == 0


def test_a_portfolio_takes_what_served_ended_jobs_best_and_is_replayed_by_it(rig, monkeypatch):
    """Before enough jobs have ended it is the network, kept whole; then a rule, said once, by its name in the run."""
    from rltune.live.journal.ended import Ended
    from rltune.model.model_file import parse_model
    from rltune.policy import get_policy

    r = rig(pipeline={"policy": "portfolio", "backfill": "none"})
    first = r.cycle()
    name, _, model = r.controller.pinned.text.partition("\n")
    assert name == "learned:anywhere"
    assert parse_model(model, name).sha256 == get_policy(name).model.sha256
    assert r.controller.pinned.pipeline.policy.name == "portfolio=learned:anywhere"
    assert sum("now deciding by portfolio=learned:anywhere" in event for event in first.events) == 1
    assert not any("portfolio" in event for event in r.cycle().events)
    ended = []
    for i in range(6 * 256):  # wide short jobs beside long narrow ones: more GPUs are asked than there are
        one = replace(job(1000 + i, 4 if i % 2 else 1, 10), submit_s=NOW - 2e6 + 600.0 * i, state="COMPLETED")
        start = one.submit_s + 100.0
        ended.append(Ended(replace(one, start_s=start, end_s=start + (900.0 if i % 2 else 4000.0)), 20_000))
    r.journal.add_ended(ended)
    # on such jobs the network is best, and would stay: let another be taken
    choice, rule = "rltune.trials.portfolio_choice.PortfolioChoice._take", get_policy("srf")
    monkeypatch.setattr(choice, lambda _self, portfolio, *_: portfolio.taking(rule))
    second, third = r.cycle(), r.cycle()
    taken = [event for event in second.events if "now deciding by portfolio=" in event]
    assert len(taken) == 1
    assert taken[0].endswith("portfolio=srf")
    assert not any("portfolio" in event for event in third.events)
    assert r.controller.pinned.text in taken[0]
    assert all(replay(r.journal, report.cycle).same for report in (first, second, third))
