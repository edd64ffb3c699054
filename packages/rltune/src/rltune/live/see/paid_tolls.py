"""What turns have cost a job on a running cluster, and when it comes first again: docs/reference/preemption.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rltune.live.control_settings import PreemptSettings
from rltune.live.see.spell import Spell


@dataclass(frozen=True, slots=True)
class Terms:
    """What giving way costs a job once, and what all of it may cost."""

    checkpoint_s: float
    restart_s: float
    min_run_s: float
    late_s: float  # infinite = any

    @classmethod
    def of(cls, preempt: PreemptSettings) -> Terms:
        """Take them from a controller's settings."""
        return cls(preempt.checkpoint, preempt.restart, preempt.min_run, preempt.late)


@dataclass(frozen=True, slots=True)
class Toll:
    """By how much later a job will end than if it had never given way, as far as that has passed."""

    paid_s: float = 0.0
    due_s: float = math.inf  # when it comes before all others; infinite = it is not away
    settled: bool = False  # it has been due, and gives way no more


def toll_of(spells: Sequence[Spell], start_s: float, terms: Terms) -> Toll:
    """Return the toll of a job with these spells behind it, in order, that runs since a time; NaN: it waits."""
    saved_s = paid_s = 0.0
    due_s, settled = math.inf, False
    starts_s = [*(spell.start_s for spell in spells[1:]), start_s]
    for number, (spell, next_s) in enumerate(zip(spells, starts_s, strict=True)):
        restart_s = terms.restart_s if number else 0.0
        done_s = saved_s + max(0.0, spell.end_s - spell.start_s - restart_s)
        saved_s = _kept_s(saved_s, done_s, terms.checkpoint_s)
        if not spell.displaced:
            continue
        paid_s += done_s - saved_s + terms.restart_s
        due_s = spell.end_s + max(0.0, terms.late_s - paid_s - terms.min_run_s)
        if not math.isnan(next_s):
            settled = settled or next_s >= due_s
            paid_s += next_s - spell.end_s
            due_s = math.inf
    return Toll(paid_s, due_s, settled)


def _kept_s(saved_s: float, done_s: float, checkpoint_s: float) -> float:
    if checkpoint_s == 0:
        return done_s
    return saved_s if math.isinf(checkpoint_s) else max(saved_s, done_s // checkpoint_s * checkpoint_s)
