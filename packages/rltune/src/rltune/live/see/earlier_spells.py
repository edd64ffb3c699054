"""What Slurm forgets when it requeues a job: when it came first, how long it had run, how often it gave way."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from rltune.live.see.paid_tolls import Terms, toll_of
from rltune.live.see.snapshot import LiveJob, Snapshot
from rltune.live.see.spell import Spell

DAY_S = 86_400.0


@dataclass
class SpellBook:
    """All spells of jobs that have not ended."""

    by_job: dict[int, dict[int, Spell]] = field(default_factory=dict)  # job, restarts
    _ran: dict[int, LiveJob] = field(default_factory=dict)  # as last seen on its nodes

    @classmethod
    def of(cls, spells: Iterable[Spell]) -> SpellBook:
        """Return the book with these in it."""
        book = cls()
        for spell in spells:
            book.by_job.setdefault(spell.job, {})[spell.restarts] = spell
        return book

    def look(self, snapshot: Snapshot, commanded: Iterable[Spell] = ()) -> list[Spell]:
        """Note which spells are over since the last look; `commanded` are those that the controller told to end.

        They count even if nobody looked while they ran: a controller that was killed remembers what it had begun.
        """
        new = [spell for spell in commanded if self._is_new(spell, snapshot.job_by_id.get(spell.job))]
        for spell in new:
            self.by_job.setdefault(spell.job, {})[spell.restarts] = spell
        for job_id, ran in list(self._ran.items()):
            now = snapshot.job_by_id.get(job_id)
            if now is None or now.ended:
                del self._ran[job_id]
            elif now.restarts > ran.restarts:
                spell = Spell(job_id, ran.submit_s, ran.start_s, snapshot.taken_s, ran.restarts, displaced=False)
                if self._is_new(spell, now):
                    self.by_job.setdefault(job_id, {})[ran.restarts] = spell
                    new.append(spell)
                del self._ran[job_id]
        # a job that completes after a requeue counts as the next spell already
        self._ran |= {job.id: job for job in snapshot.jobs if job.on_nodes and job.state != "COMPLETING"}
        self.by_job = {job: spells for job, spells in self.by_job.items() if _goes_on(snapshot.job_by_id.get(job))}
        return new

    def _is_new(self, spell: Spell, now: LiveJob | None) -> bool:
        over = now is not None and now.restarts > spell.restarts
        return over and spell.restarts not in self.by_job.get(spell.job, {})

    def remembered(self, snapshot: Snapshot, terms: Terms) -> Snapshot:
        """Return the snapshot with what Slurm has forgotten of requeued jobs, and what giving way has cost them."""
        if not self.by_job:
            return snapshot
        return replace(snapshot, jobs=tuple(self._with_past(job, snapshot.taken_s, terms) for job in snapshot.jobs))

    def _with_past(self, job: LiveJob, now_s: float, terms: Terms) -> LiveJob:
        # of a job that had this number before, in a Slurm that was set up anew, nothing is known
        spells = [one for restarts, one in sorted(self.by_job.get(job.id, {}).items()) if restarts < job.restarts]
        if not spells:
            return job
        ours = [one for one in spells if one.displaced]
        toll = toll_of(spells, job.start_s if job.on_nodes else math.nan, terms)
        return replace(
            job,
            first_submit_s=min(one.submit_s for one in spells),
            served_s=sum(one.end_s - one.start_s for one in spells),
            displaced=len(ours),
            displaced_today=sum(one.end_s > now_s - DAY_S for one in ours),
            toll_s=toll.paid_s,
            due_s=toll.due_s,
            settled=toll.settled,
        )


def _goes_on(job: LiveJob | None) -> bool:
    return job is not None and not job.ended
