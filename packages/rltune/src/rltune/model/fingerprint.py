"""Which jobs taught a model: a sample of them, small enough for its card, to be found again in any history.

Names, users and the order of rows do not survive an export, and a reader counts time from its first job. What does
survive is when a job came relative to the others, how long it ran and on how many GPUs. So of every job in the sample
the second of its submit is kept and a digest of its run time and GPUs. A history holds such jobs if, shifted by one
number of seconds, it has many of them at their very second, and far fewer at any second beside it.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rltune.jobs import Floats, Jobs

MOST = 4096  # jobs in a sample: some 35 kB of text
_ALL = 2**32  # every 32-bit hash is below it
_LOW = np.uint64(_ALL - 1)
_BYTES_EACH = 12
_MOST_BYTES = 4 * MOST * _BYTES_EACH  # a file from elsewhere cannot fill the memory
_FEWEST = 3  # seconds that must agree: fewer can be chance
_FEWEST_MOVED = 4  # the same under a shift that was looked for
_DEVIATIONS = 6.0  # of the number that agree by chance
_NEARLY_ALL = 0.95
_MOST_SHIFTS = 64
# Where the same number of jobs would agree if it were chance: beside each other in a burst, at the same time of day.
_ASIDE_S = np.array(
    [sign * s for s in (1, 2, 3, 5, 7, 10, 30, 60, 300, 600, 3600, 7200, 86_400, 172_800, 604_800) for sign in (1, -1)]
)

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Fingerprint:
    """A sample of jobs, drawn by a hash of each, so that it does not depend on their order."""

    jobs: int  # how many the sample was drawn from
    below: int  # a job is in the sample if its hash is below this: 2**32 = all are
    packed: str  # submits and digests, see `_pack`

    @classmethod
    def of(cls, tables: Sequence[Jobs], most: int = MOST) -> Fingerprint:
        """Sample the jobs of some tables."""
        parts = [_marks(jobs) for jobs in tables]
        submit = np.concatenate([part[0] for part in parts]) if parts else np.zeros(0, np.int64)
        shape = np.concatenate([part[1] for part in parts]) if parts else np.zeros(0, np.uint64)
        return _sampled(submit, shape, len(submit), _ALL, most)

    @cached_property
    def marks(self) -> tuple[Ints, Words]:
        """Return the sampled jobs: the second of submit, and the digest of run time and GPUs; ValueError if damaged."""
        return _unpack(self.packed)

    @property
    def share(self) -> float:
        """Return which share of different jobs is in the sample."""
        return self.below / _ALL

    def joined(self, other: Fingerprint, most: int = MOST) -> Fingerprint:
        """Return the fingerprint of the jobs of both."""
        submit, shape = (np.concatenate(pair) for pair in zip(self.marks, other.marks, strict=True))
        below = min(self.below, other.below)
        kept = _hashes(submit, shape) < below
        return _sampled(submit[kept], shape[kept], self.jobs + other.jobs, below, most)


@dataclass(frozen=True)
class Shared:
    """How many jobs of a history are among those of a fingerprint."""

    jobs: int
    of: int
    exact: bool  # or estimated from a sample

    def __bool__(self) -> bool:
        return self.jobs > 0

    def __str__(self) -> str:
        if self.exact:
            return f"{self.jobs:,}"
        return f"about {min(self.of, int(float(f'{self.jobs:.3g}'))):,}"  # a sample of 4,096 knows no more digits


@dataclass(frozen=True)
class JobMarks:
    """The jobs of a history, prepared so that many fingerprints can be looked up in them.

    A fingerprint is of submits. Builds before 0.2 also made some of when jobs could first start, so where the two
    differ it is looked up by both.
    """

    clocks: tuple[_Clock, ...]

    @classmethod
    def of(cls, jobs: Jobs) -> JobMarks:
        """Prepare a history."""
        times = [jobs.came_s]
        others = (jobs.submit_s, jobs.ready_s)
        times += [one for one in others if not any(np.array_equal(one, known) for known in times)]
        return cls(tuple(_Clock(*_marks_at(one, jobs)) for one in times))


@dataclass(frozen=True)
class _Clock:
    """The marks of a history by one clock: when each job came, and what it was."""

    submit: Ints
    shape: Words

    @cached_property
    def ordered(self) -> _Sorted:
        """Return the marks to look others up in."""
        return _Sorted.of(self.submit, self.shape)

    @cached_property
    def only_ones(self) -> tuple[Ints, Words]:
        """Return the jobs that are like no other."""
        return _only_ones(self.submit, self.shape)


def shared(fingerprint: Fingerprint, jobs: Jobs | JobMarks) -> Shared:
    """Count the jobs of a history that a fingerprint tells of, whatever its clock begins with."""
    marks = jobs if isinstance(jobs, JobMarks) else JobMarks.of(jobs)
    return max((_shared(fingerprint, clock) for clock in marks.clocks), key=lambda found: found.jobs)


def _shared(fingerprint: Fingerprint, ours: _Clock) -> Shared:
    submit, theirs = ours.submit, fingerprint.marks
    if not len(theirs[0]) or not len(submit):
        return Shared(0, len(submit), exact=True)
    evidence = [_Evidence.at(shift, theirs, ours.ordered) for shift in {0, *_shifts(theirs, ours.only_ones)}]
    found = [one for one in evidence if one.tells]
    exact = fingerprint.below == _ALL and not any(round(one.by_chance) for one in found)
    count = sum(one.shared for one in found) / fingerprint.share
    # a sample's estimate may exceed the whole
    jobs_found = min(len(submit), fingerprint.jobs, max(round(count), 1)) if found else 0
    return Shared(jobs_found, len(submit), exact or not found)


@dataclass(frozen=True)
class _Sorted:
    """The marks of a history, to look others up in."""

    keys: Words
    first_s: int
    last_s: int

    @classmethod
    def of(cls, submit: Ints, shape: Words) -> _Sorted:
        first, last = (int(submit.min()), int(submit.max())) if len(submit) else (0, 0)
        return cls(np.sort(_keys(submit, shape)), first, last)

    def count(self, submit: Ints, shape: Words) -> Ints:
        """Count the jobs that have each of these marks."""
        keys = _keys(submit, shape)
        return np.searchsorted(self.keys, keys, "right") - np.searchsorted(self.keys, keys, "left")


@dataclass(frozen=True)
class _Evidence:
    """What speaks for a history, under one shift of its clock."""

    moved: bool
    seconds: int  # at which at least one job is found again
    possible: int  # seconds of the sample within the history's span
    aside: int  # the most such seconds if the clock is a little or some days off, which is chance
    jobs: int
    by_chance: float  # jobs that would be found anyway
    sampled: int  # of which so many could have been

    @classmethod
    def at(cls, shift_s: int, marks: tuple[Ints, Words], ours: _Sorted) -> _Evidence:
        submit, shape = marks[0] + shift_s, marks[1]
        count = ours.count(submit, shape)
        within = (submit >= ours.first_s) & (submit <= ours.last_s)
        aside = [ours.count(submit + off, shape) for off in _ASIDE_S]
        return cls(
            shift_s != 0,
            len(np.unique(submit[count > 0])),
            len(np.unique(submit[within])),
            max(len(np.unique(submit[beside > 0])) for beside in aside),
            int(count.sum()),
            float(np.mean([beside.sum() for beside in aside])),
            int(within.sum()),
        )

    @property
    def shared(self) -> float:
        """Return how many of the jobs that were found are the same, and not only alike."""
        share = min(self.by_chance / max(self.sampled, 1), _NEARLY_ALL)
        return max(0.0, (self.jobs - self.by_chance) / (1 - share))

    @property
    def tells(self) -> bool:
        """Return whether this is no chance; jobs that are all alike tell only if nearly every one is found."""
        if self.seconds < (_FEWEST_MOVED if self.moved else _FEWEST):
            return False
        by_far = self.seconds > self.aside + _DEVIATIONS * self.aside**0.5
        return by_far or (not self.moved and self.seconds >= _NEARLY_ALL * self.possible)


def _shifts(theirs: tuple[Ints, Words], only_ones: tuple[Ints, Words]) -> list[int]:
    """Propose by how much the clocks differ: what many jobs that are like no other agree on."""
    (their_submit, their_shape), (our_submit, our_shape) = _only_ones(*theirs), only_ones
    _, at, where = np.intersect1d(their_shape, our_shape, assume_unique=True, return_indices=True)
    votes = np.unique(np.stack([our_submit[where] - their_submit[at], their_submit[at]]), axis=1)[0]
    shifts, count = np.unique(votes, return_counts=True)
    if not len(shifts):
        return []
    # a shift that is no whole number of seconds rounds to two neighbours
    beside = np.searchsorted(shifts, shifts + 1)
    known = beside < len(shifts)
    next_to = np.zeros_like(count)
    next_to[known] = np.where(shifts[beside[known]] == shifts[known] + 1, count[beside[known]], 0)
    both = count + next_to
    usual = np.sort(both)[-10] if len(both) >= 10 else 0
    good = both >= max(_FEWEST_MOVED, 3 * usual)
    best = shifts[good][np.argsort(-both[good], kind="stable")[:_MOST_SHIFTS]]
    return sorted({int(shift) + more for shift in best for more in (0, 1)})


def _only_ones(submit: Ints, shape: Words) -> tuple[Ints, Words]:
    """Keep the jobs of whose run time and size there is no other."""
    found, first, count = np.unique(shape, return_index=True, return_counts=True)
    return submit[first[count == 1]], found[count == 1]


def _marks(jobs: Jobs) -> tuple[Ints, Words]:
    """Return of every job what survives: the second of its submit, and a 32-bit digest of run time and GPUs."""
    return _marks_at(jobs.came_s, jobs)


def _marks_at(time_s: Floats, jobs: Jobs) -> tuple[Ints, Words]:
    submit = np.rint(time_s).astype(np.int64)
    run = np.rint(jobs.duration_s).astype(np.int64).astype(np.uint64)
    return submit, _mixed((run << np.uint64(24)) ^ jobs.gpus.astype(np.uint64)) >> np.uint64(32)


def _sampled(submit: Ints, shape: Words, jobs: int, below: int, most: int) -> Fingerprint:
    """Keep the marks with the smallest hashes, each once."""
    _, once = np.unique(_keys(submit, shape), return_index=True)
    submit, shape = submit[once], shape[once]
    hashes = _hashes(submit, shape)
    if len(hashes) > most:
        below = int(np.partition(hashes, most)[most])
        submit, shape = submit[hashes < below], shape[hashes < below]
    return Fingerprint(jobs, below, _pack(submit, shape))


def _keys(submit: Ints, shape: Words) -> Words:
    return (shape << np.uint64(32)) | (submit.astype(np.uint64) & _LOW)


def _hashes(submit: Ints, shape: Words) -> Words:
    return _mixed(_keys(submit, shape)) >> np.uint64(32)


def _mixed(words: Words) -> Words:
    """Return 64-bit words mixed thoroughly (the last steps of SplitMix64, Steele et al., OOPSLA '14)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _pack(submit: Ints, shape: Words) -> str:
    """Write marks as text: steps of submit as int64, then digests as uint32, deflated, in base64."""
    order = np.lexsort((shape, submit))
    steps = np.diff(submit[order], prepend=0)
    raw = steps.astype("<i8").tobytes() + shape[order].astype("<u4").tobytes()
    return base64.b64encode(zlib.compress(raw, 9)).decode()


def _unpack(text: str) -> tuple[Ints, Words]:
    inflate = zlib.decompressobj()
    try:
        raw = inflate.decompress(base64.b64decode(text, validate=True), _MOST_BYTES)
    except zlib.error as error:
        raise ValueError(f"its fingerprint cannot be read: {error}") from None
    count, rest = divmod(len(raw), _BYTES_EACH)
    if rest or not inflate.eof:
        raise ValueError("its fingerprint is cut or too long")
    steps = np.frombuffer(raw, "<i8", count).astype(np.int64)
    return np.cumsum(steps), np.frombuffer(raw, "<u4", count, 8 * count).astype(np.uint64)
