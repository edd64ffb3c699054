"""Usage of users and accounts, decaying with a half-life, as Slurm's multifactor plugin counts it, in GPU-seconds."""

from __future__ import annotations

import math

from rltune.core.jit import kernel
from rltune.core.state import State, World

# Places in World.factor_par: weights, then their constants.
W_AGE, W_FAIR, W_SIZE, W_PARTITION, W_QOS, W_TIME, MAX_AGE, HALF_LIFE, DAMPENING, TIME_SCALE, FAVOR_SMALL, ON = range(12)


@kernel
def usage_now(w: World, s: State, row: int, owner: int) -> float:
    """Give the decayed usage of a user (row 0) or an account (row 1) as of now."""
    decay = math.log(2.0) / w.factor_par[HALF_LIFE]
    elapsed = s.now[0] - s.usage_at[row, owner]
    left = math.exp(-decay * elapsed)
    return s.usage[row, owner] * left + s.usage_rate[row, owner] * (1.0 - left) / decay  # type: ignore[no-any-return]


@kernel
def _add_rate(w: World, s: State, row: int, owner: int, rate: float) -> None:
    s.usage[row, owner] = usage_now(w, s, row, owner)
    s.usage_at[row, owner] = s.now[0]
    s.usage_rate[row, owner] += rate


@kernel
def usage_changes(w: World, s: State, job: int, sign: float) -> None:
    """Note that a job's GPUs begin (+1) or cease (-1) to be used."""
    if w.factor_par[ON] == 0.0:
        return
    rate = sign * w.rank_n[job]
    if w.user[job] >= 0:
        _add_rate(w, s, 0, w.user[job], rate)
    if w.account[job] >= 0:
        _add_rate(w, s, 1, w.account[job], rate)


@kernel
def fair_share(w: World, s: State, job: int, used_by_users: float, used_by_accounts: float) -> float:
    """Give Slurm's classic factor 2^(-(effective usage / share) / dampening); 1 for a job without a user.

    The effective usage of a user within an account is its own, plus its share of what the rest of its account used:
    U = u + (A - u) s, with u and A normalised by all usage (SchedMD, 'Multifactor Priority Plugin').
    """
    user = w.user[job]
    if user < 0 or used_by_users <= 0.0:
        return 1.0
    used = usage_now(w, s, 0, user) / used_by_users
    share = w.user_share[user]
    account = w.account[job]
    if account >= 0 and used_by_accounts > 0.0:
        of_account = usage_now(w, s, 1, account) / used_by_accounts
        used += (of_account - used) * share
        share *= w.account_share[account]
    return 2.0 ** (-(used / share) / w.factor_par[DAMPENING])  # type: ignore[no-any-return]
