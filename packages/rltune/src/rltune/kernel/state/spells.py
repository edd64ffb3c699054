"""Spells: a job that takes turns runs in several, and this is what it carries from one to the next."""

from __future__ import annotations

import math

from rltune.kernel.jit import kernel
from rltune.kernel.state.arrays import SPELL_CHUNKS_N, SPELLS_N, Options, State, World
from rltune.kernel.state.attained import spell_work, work_done
from rltune.kernel.state.online_survival import left_by_estimate, mean_left

INF = float("inf")
DAY_S = 86400.0


@kernel
def kept_work(w: World, s: State, job: int, done: float) -> float:
    """Return the work up to the last checkpoint; checkpoints count work over all spells, and none is lost again."""
    every = w.yields[job].checkpoint
    if every == 0.0:
        return done
    return s.turn[job].saved if every == INF else max(s.turn[job].saved, math.floor(done / every) * every)


@kernel
def stop_loss(w: World, s: State, job: int) -> float:
    """Return what stopping a running job now would cost: GPU-seconds of work since its checkpoint and of a restart."""
    return w.job[job].rank_n * work_to_repeat(w, s, job)


@kernel
def work_to_repeat(w: World, s: State, job: int) -> float:
    """Return what a running job would do again if it were stopped now: work since a checkpoint, and a restart."""
    done = work_done(w, s, job)
    return done - kept_work(w, s, job, done) + w.yields[job].restart


@kernel
def remember_estimates(s: State, job: int) -> None:
    """Note, when a job comes, what is believed of all its work."""
    s.turn[job].estimate = s.life[job].estimate
    s.turn[job].rank = s.life[job].rank


@kernel
def begin_spell(s: State, job: int) -> float:
    """Note the start of a job's first spell; return how long the one that begins now lasts if nobody stops it."""
    if s.turn[job].first != s.turn[job].first:  # NaN: it is the first
        s.turn[job].first = s.now[0]
    return s.turn[job].length


@kernel
def end_spell(w: World, s: State, o: Options, job: int) -> None:
    """Stop a running job before its end: work back to the last checkpoint is lost, and a restart will come first."""
    _record_spell(w, s, job)
    turn = s.turn[job]
    held = (s.now[0] - s.life[job].start) * s.life[job].speed
    done = turn.saved + spell_work(s, job)
    kept = kept_work(w, s, job, done)
    turn.service += spell_work(s, job)
    turn.lost += min(turn.restart, held) + (done - kept)
    turn.saved = kept
    turn.restart = w.yields[job].restart
    turn.length = turn.restart + (w.job[job].duration - kept)
    s.life[job].estimate = turn.restart + mean_left(w, s, job, kept)
    s.life[job].rank = turn.restart + rank_left(w, s, o, job, kept)


@kernel
def turns_today(s: State, job: int) -> int:
    """Return how often a job was displaced in its day, which began with a displacement."""
    return s.turn[job].day_n if s.now[0] - s.turn[job].day_from < DAY_S else 0


@kernel
def count_turn(s: State, job: int) -> None:
    """Count a displacement; one after the end of the last day begins another."""
    turn = s.turn[job]
    turn.preemptions += 1
    turn.day_n = turns_today(s, job) + 1
    if turn.day_n == 1:
        turn.day_from = s.now[0]


@kernel
def carry_over(w: World, s: State, o: Options, job: int, service: float) -> None:
    """Let a job that comes have done so much work in spells before: where a running cluster fills the state."""
    remember_estimates(s, job)
    if service > 0.0:
        turn = s.turn[job]
        kept = kept_work(w, s, job, service)
        turn.service = service
        turn.saved = kept
        turn.restart = w.yields[job].restart
        s.life[job].estimate = turn.restart + mean_left(w, s, job, kept)
        s.life[job].rank = turn.restart + rank_left(w, s, o, job, kept)


@kernel
def rank_left(w: World, s: State, o: Options, job: int, done: float) -> float:
    """Return what is left after so much work by the policy's own prediction, if it has one."""
    return left_by_estimate(s.turn[job].rank, done) if o.rank_by_history else mean_left(w, s, job, done)


@kernel
def _record_spell(w: World, s: State, job: int) -> None:
    spell = s.spell[s.n[SPELLS_N]]
    spell.job = job
    spell.start = s.life[job].start
    spell.end = s.now[0]
    spell.chunks = w.shape[s.life[job].form].chunks
    first = w.job[job].chunk_at
    for i in range(spell.chunks):
        to = s.n[SPELL_CHUNKS_N] + i
        s.spell_at[to].node = s.at[first + i].node
        s.spell_at[to].gpus = s.at[first + i].gpus
    s.n[SPELL_CHUNKS_N] += spell.chunks
    s.n[SPELLS_N] += 1


@kernel
def spells_are_many(s: State) -> bool:
    """Return whether Python should take the spells: half of the room is left, enough for one moment more."""
    return 2 * s.n[SPELLS_N] > len(s.spell) or 2 * s.n[SPELL_CHUNKS_N] > len(s.spell_at)
