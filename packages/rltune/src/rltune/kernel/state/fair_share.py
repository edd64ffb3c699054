"""Usage of users and accounts, decaying with a half-life, as Slurm's multifactor plugin counts it, in GPU-seconds."""

from __future__ import annotations

import math

from rltune.kernel.jit import kernel
from rltune.kernel.state.arrays import State, World

# Places in World.factor_par: weights, then their constants.
W_AGE, W_FAIR, W_SIZE, W_PARTITION, W_QOS, W_TIME, MAX_AGE, HALF_LIFE, DAMPENING, TIME_SCALE, FAVOR_SMALL, ON = range(
    12
)


@kernel
def usage_now(w: World, s: State, row: int, owner: int) -> float:
    """Return the decayed usage of a user within an account (row 0) or of an account (row 1) as of now."""
    decay = math.log(2.0) / w.factor_par[HALF_LIFE]
    elapsed = s.now[0] - s.owner[row, owner].at
    left = math.exp(-decay * elapsed)
    usage = s.owner[row, owner].usage * left
    if s.owner[row, owner].rate == 0.0:  # of most nothing runs, and a division is saved
        return usage
    return usage + s.owner[row, owner].rate * (1.0 - left) / decay


@kernel
def _add_rate(w: World, s: State, row: int, owner: int, rate: float) -> None:
    s.owner[row, owner].usage = usage_now(w, s, row, owner)
    s.owner[row, owner].at = s.now[0]
    s.owner[row, owner].rate += rate


@kernel
def usage_changes(w: World, s: State, job: int, sign: float) -> None:
    """Note that a job's GPUs begin (+1) or cease (-1) to be used."""
    if w.factor_par[ON] == 0.0:
        return
    rate = sign * w.job[job].rank_n
    if w.job[job].user >= 0:
        _add_rate(w, s, 0, w.job[job].user, rate)
    if w.job[job].account >= 0:
        _add_rate(w, s, 1, w.job[job].account, rate)


@kernel
def fair_share(w: World, s: State, job: int, used: float) -> float:
    """Return the factor of a job's user, computed once a moment; 1 for a job of nobody."""
    user = w.job[job].user
    if user < 0 or used <= 0.0:
        return 1.0
    if s.owner[0, user].fair_at != s.now[0]:
        s.owner[0, user].fair = _fair_share(w, s, job, used)
        s.owner[0, user].fair_at = s.now[0]
    return s.owner[0, user].fair


@kernel
def _fair_share(w: World, s: State, job: int, used: float) -> float:
    """Return Slurm's classic factor 2^(-(effective usage / share) / dampening).

    The effective usage of a user within an account is its own, plus its share of what the rest of its account used:
    U = u + (A - u) s, with u and A normalised by all usage (SchedMD, 'Classic Fairshare Algorithm').
    """
    user = w.job[job].user
    own = usage_now(w, s, 0, user) / used
    share = s.owner[0, user].share
    account = w.job[job].account
    if account >= 0:
        own += (usage_now(w, s, 1, account) / used - own) * share
        share *= s.owner[1, account].share
    return 2.0 ** (-(own / share) / w.factor_par[DAMPENING])
