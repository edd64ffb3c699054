"""A model that is judged on jobs that taught it, or that chose it, proves nothing: its card tells which did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from rltune.jobs import Jobs
from rltune.model.card import Card
from rltune.model.fingerprint import JobMarks, shared
from rltune.policy.base import Policy
from rltune.policy.learned import Learned
from rltune.trials.parts import Part

JUDGED = "it is judged on"
ADVICE = "judge it on jobs that came later"


@dataclass(frozen=True)
class Exam:
    """Jobs on which models are judged."""

    jobs: Jobs
    name: str = JUDGED  # after "the 1,024 jobs"
    chooses: bool = False  # only who is judged later: that a model was chosen on the same jobs before does no harm

    @cached_property
    def marks(self) -> JobMarks:
        """Return the jobs as fingerprints are looked up in them: made once for all models."""
        return JobMarks.of(self.jobs)

    @classmethod
    def of_part(cls, jobs: Jobs, part: Part, *, chooses: bool = False) -> Exam:
        """Take the jobs of a part of a trace."""
        return cls(jobs.window(part.first, len(part)), f"of the {part.name} part", chooses)


def leaks(policies: Iterable[Policy], exams: Iterable[Exam]) -> tuple[str, ...]:
    """Return which models are judged on jobs that are not new to them, or are not known to be new.

    Of policies that are no models nothing is said.
    """
    cards = dict(filter(None, map(_card, policies)))
    unknown = (_not_known(name, card) for (name, _), card in cards.items() if card.unknown)
    found = (note for exam in exams for (name, _), card in cards.items() for note in _notes(name, card, exam))
    return (*found, *unknown)


def _card(policy: Policy) -> tuple[tuple[str, str], Card] | None:
    """Return a model's name, hash and card."""
    return ((policy.name, policy.model.sha256), policy.model.card) if isinstance(policy, Learned) else None


def _not_known(name: str, card: Card) -> str:
    what = "not all that taught it is known" if card.lessons else "what taught it is not known"
    return f"{name}: {what} ({card.unknown}), so it may have seen the jobs {JUDGED}."


def _notes(name: str, card: Card, exam: Exam) -> Iterator[str]:
    if card.lessons is None:
        return
    taught = shared(card.lessons.taught, exam.marks)
    chose = shared(card.lessons.chose, exam.marks)
    ways = [f"taught by {taught}"] if taught else []
    ways += [f"chosen on {chose}"] if chose and not exam.chooses else []
    if ways:
        told = f"{name} was {' and '.join(ways)} of the {len(exam.jobs):,} jobs {exam.name}"
        yield f"{told}, so it has seen what it is judged by: {ADVICE}."
