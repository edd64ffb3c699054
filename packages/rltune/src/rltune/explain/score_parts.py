"""What a job's score is made of: each term, and by how much it moves the job from where the queue's median would be."""

from __future__ import annotations

import numpy as np

from rltune.engine.run import Machine
from rltune.explain.explanation import ScorePart
from rltune.kernel.score.features import look_around
from rltune.kernel.score.network import fill_inputs, logit
from rltune.kernel.score.rules import FCFS, FIXED, LEARNED, MULTIFACTOR, UNICEP, base_score
from rltune.kernel.state import arrays as core
from rltune.kernel.state.handles import Arrays
from rltune.policy.learned import Learned
from rltune.present.fixed_order import FixedOrder

_MOST_LOOKED_AT = 512  # jobs of a queue, for its median


def score_parts(machine: Machine, before: Arrays, row: int, order: core.I8) -> tuple[ScorePart, ...]:
    """Return the terms, those that move most first; none where the policy is a user's own function."""
    policy = machine.pipeline.policy
    if row not in order:
        return ()
    if isinstance(policy, FixedOrder):
        parts = _given(policy, row, order)
    elif policy.code == LEARNED and isinstance(policy, Learned):
        parts = _of_network(policy, machine, before, row)
    elif policy.code <= MULTIFACTOR:
        parts = _of_rule(policy.code, before, row, order)
    else:
        parts = []
    return tuple(sorted(parts, key=lambda part: -abs(part.moved)))


def _given(policy: FixedOrder, row: int, order: core.I8) -> list[ScorePart]:
    return [
        ScorePart(name, float(values[row]), float(np.median(values[order]) - values[row]))
        for name, values in policy.parts.items()
    ]


def _of_rule(code: int, before: Arrays, row: int, order: core.I8) -> list[ScorePart]:
    """Put the queue's median in place of each of a rule's terms, and let the core score again."""
    world, state = before.world, before.state
    own = world.job[row]
    rank = float(state.life["rank"][row])
    score = base_score(before.w, before.s, row, code, rank)
    now = float(state.now[0])
    parts = []
    for name, column in (("GPUs", "rank_n"), ("time waited, s", "submit")):
        kept, middle = float(own[column]), float(np.median(world.job[column][order]))
        own[column] = middle
        moved = score - base_score(before.w, before.s, row, code, rank)
        own[column] = kept
        parts.append(ScorePart(name, now - kept if column == "submit" else kept, moved))
    middle = float(np.median(state.life["rank"][order]))
    parts.append(ScorePart("estimated run time, s", rank, score - base_score(before.w, before.s, row, code, middle)))
    return [part for part in parts if part.moved or _is_asked(code, part.name)]


def _is_asked(code: int, name: str) -> bool:
    """Return whether a rule looks at a term at all."""
    if name == "time waited, s":
        return code == FCFS or code >= UNICEP - 2
    return code not in {FCFS, FIXED}


def _of_network(policy: Learned, machine: Machine, before: Arrays, row: int) -> list[ScorePart]:
    """Put the queue's mean in place of each input, and ask the network again."""
    w, s, state = before.w, before.s, before.state
    head, tail = int(state.n[core.Q_HEAD]), int(state.n[core.Q_TAIL])
    look_around(w, s, machine.options, tail)
    names = policy.model.recipe.inputs
    places = np.unique(np.linspace(head, tail - 1, min(tail - head, _MOST_LOOKED_AT)).astype(np.int64))
    inputs = np.empty((len(places), len(names)))
    for i, place in enumerate(places.tolist()):
        fill_inputs(w, s, place, inputs[i])
    usual = inputs.mean(axis=0)
    mine = np.empty(len(names))
    place = head + int(np.flatnonzero(state.queue["job"][head:tail] == row)[0])
    fill_inputs(w, s, place, mine)
    own = logit(w, s, mine)
    parts = []
    for i, name in enumerate(names):
        changed = mine.copy()
        changed[i] = usual[i]
        parts.append(ScorePart(name, float(mine[i]), float(logit(w, s, changed) - own)))
    return parts
