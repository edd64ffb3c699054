"""Usage of users and accounts, decaying with a half-life, as Slurm's multifactor plugin counts it.

Only ratios of usage count, so nothing is made to decay: what is used now weighs more than what was used before. The
weight, called growth, is 1 at a reference moment and doubles every half-life. So a GPU in use from a to b adds
growth(b) - growth(a), and one power a moment serves all users. Times half-life / ln 2 / growth(now) it would be
decayed GPU-seconds.
"""

from __future__ import annotations

import numpy as np

from rltune.kernel.jit import kernel
from rltune.kernel.state.arrays import F8, Q_HEAD, Records, State, World

# Places in World.factor_par: weights, then their constants.
W_AGE, W_FAIR, W_SIZE, W_PARTITION, W_QOS, W_TIME, MAX_AGE, HALF_LIFE, DAMPENING, TIME_SCALE, FAVOR_SMALL, ON = range(
    12
)

# Rows of State.owner: users within accounts, accounts, and in one place all users together.
USERS, ACCOUNTS, EVERYBODY, OWNERS = range(4)

# Places in State.growth: the growth, the time that it is of, the reference moment, and one over all usage up to now.
GROWTH, GROWN_AT, REFERENCE, PART_OF_ALL = range(4)
MOST_HALF_LIVES = 64.0  # since the reference moment: far from what a float64 can hold
NOTHING = 1e-300  # usage that decayed for a thousand half-lives; one over it can still be told


def growth_from(reference_s: float) -> F8:
    """Return the growth of a run that begins at the reference moment; no time is known yet."""
    return np.array([1.0, np.nan, reference_s, 0.0])


@kernel
def grow(w: World, s: State) -> None:
    """Compute the growth as of now, and what all have used; once a moment, as starts and ends do not change it."""
    if s.growth[GROWN_AT] == s.now[0]:
        return
    half_lives = (s.now[0] - s.growth[REFERENCE]) / w.factor_par[HALF_LIFE]
    s.growth[GROWN_AT] = s.now[0]
    s.growth[GROWTH] = 2.0**half_lives
    if half_lives > MOST_HALF_LIVES:
        _refer_to_now(s, 2.0**-half_lives)
    used = _usage(s, EVERYBODY, 0)
    s.growth[PART_OF_ALL] = 1.0 / used if used > NOTHING else 0.0


@kernel
def _refer_to_now(s: State, left: float) -> None:
    """Make now the reference moment; `left` is what a unit of the old one is now. The growth may have overflowed."""
    s.growth[GROWTH] = 1.0
    s.growth[REFERENCE] = s.now[0]
    for row in range(OWNERS):
        for i in range(s.owner.shape[1]):
            owner = s.owner[row, i]
            owner.usage = owner.usage * left + owner.rate * (1.0 - owner.growth * left)
            owner.growth = 1.0


@kernel
def _usage(s: State, row: int, owner: int) -> float:
    """Return the usage of a user within an account, of an account or of everybody; call grow before."""
    own = s.owner[row, owner]
    return own.usage + own.rate * (s.growth[GROWTH] - own.growth)


@kernel
def _add_rate(s: State, row: int, owner: int, rate: float) -> None:
    s.owner[row, owner].usage = _usage(s, row, owner)
    s.owner[row, owner].growth = s.growth[GROWTH]
    s.owner[row, owner].rate += rate


@kernel
def usage_changes(w: World, s: State, job: int, sign: float) -> None:
    """Note that a job's GPUs begin (+1) or cease (-1) to be used."""
    if w.factor_par[ON] == 0.0:
        return
    grow(w, s)
    rate = sign * w.job[job].rank_n
    if w.job[job].user >= 0:
        _add_rate(s, USERS, w.job[job].user, rate)
        _add_rate(s, EVERYBODY, 0, rate)
    if w.job[job].account >= 0:
        _add_rate(s, ACCOUNTS, w.job[job].account, rate)


@kernel
def fair_share(w: World, s: State, job: Records) -> float:
    """Return the factor of a job's user, computed once a moment; 1 for a job of nobody."""
    if job.user < 0:
        return 1.0
    user = s.owner[USERS, job.user]
    if user.fair_at != s.now[0]:
        user.fair = _fair_share(w, s, job.user, job.account)
        user.fair_at = s.now[0]
    return user.fair


@kernel
def share_among_waiting(w: World, s: State, last: int) -> None:
    """Compute the factors of all users who wait, up to a row of the queue; s.heap is scratch.

    Who they are is gathered first, and without a branch: whether a user was met before cannot be guessed.
    """
    grow(w, s)
    now = s.now[0]
    count = 0
    for i in range(s.n[Q_HEAD], last):
        user = w.job[s.queue[i].job].user
        if user >= 0:
            s.heap[count] = s.queue[i].job
            count += s.owner[USERS, user].fair_at != now
            s.owner[USERS, user].fair_at = now
    for i in range(count):
        job = w.job[s.heap[i]]
        s.owner[USERS, job.user].fair = _fair_share(w, s, job.user, job.account)


@kernel
def _fair_share(w: World, s: State, user: int, account: int) -> float:
    """Return Slurm's classic factor 2^(-(effective usage / share) / dampening); 1 if nobody has used anything.

    The effective usage of a user within an account is its own, plus its share of what the rest of its account used:
    U = u + (A - u) s, with u and A normalised by all usage (SchedMD, 'Classic Fairshare Algorithm').
    """
    grow(w, s)
    own = _usage(s, USERS, user)
    share = s.owner[USERS, user].share
    if account >= 0:
        own += (_usage(s, ACCOUNTS, account) - own) * share
        share *= s.owner[ACCOUNTS, account].share
    return 2.0 ** (-own * s.growth[PART_OF_ALL] / (share * w.factor_par[DAMPENING]))
