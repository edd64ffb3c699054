"""A fingerprint finds its jobs again in any history that holds them, and finds nothing in others."""

import numpy as np
import pytest

from rltune import Jobs, read_trace
from rltune.model.fingerprint import MOST, Fingerprint, Shared, shared
from rltune.trace import synthesise, write
from rltune.trace.anonymise import anonymise
from rltune.trace.lublin import lublin


@pytest.fixture(scope="module")
def history():
    return synthesise("helios", 10_000, seed=3)


@pytest.fixture(scope="module")
def taught(history):
    """Tell of the first 8,000 jobs, of which a sample is kept."""
    return Fingerprint.of([history.window(0, 8000)])


def moved(jobs, by_s):
    return jobs.with_columns(submit_s=jobs.submit_s + by_s)


def joined(*tables):
    """Put tables under each other, with the three columns that every trace has."""
    columns = {c: np.concatenate([getattr(t, c) for t in tables]) for c in ("submit_s", "duration_s", "gpus")}
    return Jobs.from_arrays(**columns).sorted()


def other(jobs=10_000, seed=99):
    return synthesise("helios", jobs, seed=seed)


def read_again(jobs, path):
    write(jobs, path)
    return read_trace(path)


CHANGED = {
    "as it is": lambda jobs, _: jobs,
    "cut": lambda jobs, _: jobs.window(3000, 4000),
    "extended by what came later": lambda jobs, _: joined(jobs, moved(other(), jobs.submit_s[-1])),
    "extended by what came before": lambda jobs, _: joined(other(), moved(jobs, 5_000_000.0)),
    "joined with another of the same days": lambda jobs, _: joined(jobs, other()),
    "joined, and its clock begins elsewhere": lambda jobs, _: moved(joined(jobs, other()), 777.25),
    "cut, so that its clock begins with the first job": lambda jobs, _: moved(
        jobs.window(3000, 4000), -jobs.submit_s[3000]
    ),
    "in another time zone": lambda jobs, _: moved(jobs, 7200.0),
    "since 1970": lambda jobs, _: moved(jobs, 1.5e9),
    "in another order": lambda jobs, _: jobs.take(np.random.default_rng(0).permutation(len(jobs))),
    "every third job": lambda jobs, _: jobs.take(np.arange(0, len(jobs), 3)),
    "anonymised": lambda jobs, _: anonymise(jobs),
    "with three columns": lambda jobs, _: joined(jobs),
    "as csv": lambda jobs, path: read_again(jobs, path / "a.csv"),
    "as parquet": lambda jobs, path: read_again(jobs, path / "a.parquet"),
    "anonymised, cut, moved and without users": lambda jobs, _: moved(joined(anonymise(jobs).window(500, 2500)), -99.0),
}


@pytest.mark.parametrize("change", CHANGED)
def test_jobs_are_found_whatever_was_done_to_their_history(history, taught, tmp_path, change):
    """As many as there are, within what a sample can tell."""
    seen = CHANGED[change](history, tmp_path)
    there = {"cut": 4000, "every third job": 2667, "anonymised, cut, moved and without users": 2500}
    expected = 4000 if change.startswith("cut") else there.get(change, 8000)
    found = shared(taught, seen)
    assert found.of == len(seen)
    assert not found.exact
    assert found.jobs == pytest.approx(expected, rel=0.08)


def test_a_small_history_is_counted_exactly(history):
    """All of its jobs are in the sample."""
    few = history.window(0, 1500)
    assert str(shared(Fingerprint.of([few]), history.window(1000, 1000))) == "500"
    assert shared(Fingerprint.of([few]), history.window(1500, 2000)).jobs == 0


@pytest.mark.parametrize("shift_s", [0.0, -3600.0, 123_456.0])
@pytest.mark.parametrize("seed", range(5))
def test_one_in_a_hundred_jobs_is_enough(history, taught, shift_s, seed):
    """100 jobs that taught, scattered among 9,900 others."""
    rows = np.sort(np.random.default_rng(seed).choice(8000, 100, replace=False))
    found = shared(taught, moved(joined(history.take(rows), other(9900, seed + 200)), shift_s))
    assert 50 < found.jobs < 150


def equal_jobs(seed, span_s, count=10_000):
    """Make jobs of one size and run time that come at random."""
    submit = np.sort(np.random.default_rng(seed).integers(0, span_s, count)).astype(float)
    return Jobs.from_arrays(submit, 60.0, 1)


def few_kinds(seed, submit_s):
    drawn = np.random.default_rng(seed)
    run = 60.0 * drawn.integers(1, 5, len(submit_s))
    return Jobs.from_arrays(submit_s, run, drawn.choice([1, 2, 4, 8], len(submit_s)))


DIFFERENT = {
    "the rest of the same history": lambda: tuple(
        synthesise("pai", 9000).window(*rows) for rows in ((0, 8000), (8000, 1000))
    ),
    "another seed": lambda: (synthesise("philly", 8000, 1), synthesise("philly", 9000, 2)),
    "Lublin's model": lambda: (lublin(8000, 256, 1), lublin(8000, 256, 2)),
    "all alike, sparse": lambda: (equal_jobs(1, 10**6), equal_jobs(2, 10**6)),
    "all alike, dense": lambda: (equal_jobs(1, 50_000), equal_jobs(2, 50_000)),
    "all alike, one a second": lambda: (equal_jobs(1, 10_000), equal_jobs(2, 10_000)),
    "few kinds, on the minute": lambda: (few_kinds(1, 60.0 * np.arange(8000)), few_kinds(2, 60.0 * np.arange(8000))),
    "few kinds, all at once": lambda: (few_kinds(1, np.zeros(5000)), few_kinds(2, np.zeros(5000))),
    "no jobs": lambda: (synthesise("pai", 500), synthesise("pai", 500).window(0, 0)),
}


@pytest.mark.parametrize("case", DIFFERENT)
@pytest.mark.parametrize("shift_s", [0.0, 86_400.0])
def test_other_jobs_are_no_match(case, shift_s):
    """Not even if most are of the same size and run time."""
    theirs, ours = DIFFERENT[case]()
    assert shared(Fingerprint.of([theirs]), moved(ours, shift_s)).jobs == 0


def test_forty_pairs_of_histories_give_no_false_alarm():
    """Every pair of seven of one kind, each way."""
    made = [synthesise("philly", 3000, seed) for seed in range(7)]
    prints = [Fingerprint.of([jobs]) for jobs in made]
    pairs = [(a, b) for a in range(7) for b in range(7) if a != b]
    assert [pair for pair in pairs if shared(prints[pair[0]], made[pair[1]])] == []


@pytest.mark.parametrize("jobs", [equal_jobs(1, 10**6), few_kinds(1, 60.0 * np.arange(8000))])
def test_jobs_that_are_much_alike_are_found_all_the_same(jobs):
    """When they come tells them apart."""
    found = shared(Fingerprint.of([jobs]), jobs.window(1000, 3000))
    assert found.jobs == pytest.approx(3000, rel=0.1)


def test_a_history_like_clockwork_is_found_as_it_is():
    """Every job of it is among those that taught."""
    clockwork = Jobs.from_arrays(10.0 * np.arange(5000), 60.0, 1)
    assert shared(Fingerprint.of([clockwork]), clockwork.window(100, 2000))


def test_a_fingerprint_does_not_depend_on_order_or_names(history):
    """The sample is drawn by a hash of what survives."""
    made = Fingerprint.of([history])
    assert Fingerprint.of([anonymise(history).take(np.arange(len(history))[::-1])]) == made
    assert Fingerprint.of([history.window(0, 4000), history.window(4000, 6000)]) == made


def test_a_fingerprint_is_tens_of_kilobytes():
    """However many jobs there are."""
    many = 300_000
    drawn = np.random.default_rng(0)
    jobs = Jobs.from_arrays(np.sort(drawn.uniform(0, 3e7, many)), drawn.exponential(3600, many), 1)
    made = Fingerprint.of([jobs])
    assert len(made.packed) < 40_000
    assert len(made.marks[0]) == pytest.approx(MOST, abs=2)
    assert made.share == pytest.approx(MOST / many, rel=0.05)


def test_an_estimate_is_told_as_one(history, taught):
    """With as many digits as a sample can know, and never more than there are."""
    found = shared(taught, history)
    assert str(found) == f"about {round(found.jobs, 1 - len(str(found.jobs)) + 2):,}"
    assert str(Shared(10_996, 10_999, exact=False)) == "about 10,999"


def test_two_fingerprints_join_to_that_of_all_jobs(history):
    """As for a model that goes on from another."""
    one, two = (Fingerprint.of([history.window(first, 5000)]) for first in (0, 5000))
    both = one.joined(two)
    assert both.jobs == 10_000
    assert shared(both, history).jobs == pytest.approx(10_000, rel=0.08)


HELD = {  # by how long something held a job before it could start
    "a second": lambda _, n: np.ones(n),
    "some of them": lambda rng, n: np.where(rng.random(n) < 0.4, rng.integers(60, 5000, n), 0.0),
    "all of them": lambda rng, n: rng.integers(60, 5000, n) * 1.0,
}


def held(how, n=3000):
    """Make jobs that something held, as a Slurm tells of them."""
    rng = np.random.default_rng(0)
    submit, run = np.sort(rng.integers(0, 10_000_000, n)) * 1.0, rng.integers(60, 9000, n) * 1.0
    ready = submit + HELD[how](rng, n)
    told = {"recorded_eligible_s": ready, "recorded_start_s": ready + rng.integers(0, 3000, n)}
    return Jobs.from_arrays(submit_s=submit, duration_s=run, gpus=rng.integers(1, 9, n), **told)


@pytest.mark.parametrize("how", HELD)
def test_jobs_that_something_held_are_found_whenever_they_are_counted_from(how):
    """A model may have been taught by submits or, before 0.2, by when jobs could start, and be judged by either."""
    raw = held(how)
    ready = raw.from_when_ready().sorted()
    forgetful = ready.with_columns(held_s=np.zeros(len(ready)))  # as builds before 0.2 moved them
    for taught in (raw, ready, forgetful):
        for judged in (raw, ready, ready.window(1000, 500)):
            assert shared(Fingerprint.of([taught]), judged) == Shared(len(judged), len(judged), exact=True)


def test_a_fingerprint_is_of_submits(tmp_path):
    """So that moving jobs to when they could start changes no card, also through a file."""
    raw = held("some of them")
    ready = raw.from_when_ready().sorted()
    assert not np.array_equal(ready.submit_s, raw.submit_s)
    assert Fingerprint.of([ready]) == Fingerprint.of([raw]) == Fingerprint.of([read_again(ready, tmp_path / "a.csv")])


@pytest.mark.parametrize("packed", ["no base64!", "AAAA", "eJwDAAAAAAE=x"])
def test_a_damaged_fingerprint_says_so(packed):
    with pytest.raises(ValueError, match=r".+"):
        _ = Fingerprint(3, 2**32, packed).marks
