"""One pass of the core over a present, and what it says of each job."""

from __future__ import annotations

import numpy as np

from rltune.errors import InputError
from rltune.explain.explanation import Ahead, Explanation, Overtaker, Reason
from rltune.explain.queue_ahead import QueueAhead
from rltune.explain.request_changes import changes_for
from rltune.explain.room_for import RoomFor
from rltune.explain.score_parts import score_parts
from rltune.kernel.backfill.easy import reserve
from rltune.kernel.build.prepare import copy_state
from rltune.kernel.fit.allocate import find
from rltune.kernel.fit.running import settle_expected
from rltune.kernel.score.overtaking import fill_claims
from rltune.kernel.state import arrays as core
from rltune.kernel.state.handles import Arrays, arrays_of
from rltune.kernel.state.limits import start_is_allowed
from rltune.present.fixed_order import FixedOrder
from rltune.present.moment import machine_at, order_of
from rltune.present.present import THROTTLE_STEP, Present, Why
from rltune.text import counted, seconds

MOST_AHEAD = 5
MOST_OVERTAKERS = 5
_MOST_NAMED = 10
_ARRAY = "array"
_SCOPES = ("user", "account", "partition", "QOS", _ARRAY)
_STEPS = {
    Why.HOLD: "have it released: scontrol release {job}",
    Why.DEPENDENCY: "wait for the jobs that it depends on, or remove the dependency",
    Why.NEVER: "ask for less, or for what the cluster has",
    Why.DOWN: "wait until nodes are back, or ask for others",
    Why.LIMIT: "wait until others of the same user, account, partition or QOS have ended, or ask for a higher limit",
    Why.OUT_OF_VIEW: "wait: the policy looks at the oldest jobs first",
    Why.NOT_YET: "wait, or give it an earlier begin time",
    Why.LEFT: "ask Slurm: scontrol show job {job}",
}


class Explainer:
    """A present on which one pass was made; it explains any number of jobs."""

    def __init__(self, present: Present) -> None:
        self.present = present
        self.machine = machine_at(present)
        self.order, self.scores = order_of(self.machine)
        self.before: Arrays = arrays_of(self.machine.world, copy_state(self.machine.state))
        self._claims = self._find_claims()
        self.machine.make_pass(explain=True)
        self._place = {int(row): i for i, row in enumerate(self.order.tolist())}
        gpus, status = np.asarray(present.jobs.gpus, dtype=np.int64), self.machine.state.life["status"]
        self._queue = QueueAhead(self.machine.world, self.order, gpus, status, self._claims)
        self._fits: dict[tuple[int, float], bool] = {}
        self._lacks: dict[tuple[int, float], Reason] = {}

    def explain(self, job: str, *, changes: bool = True) -> Explanation:
        """Explain one job; `changes`: also try what would start it sooner."""
        present = self.present
        recorded = present.replayed.recorded_of(job) if present.replayed is not None else ""
        if job in present.asides:
            aside = present.asides[job]
            reason = Reason(aside.why, aside.text)
            step = aside.step.replace("{job}", job) or self._step(job, reason)
            return Explanation(job, present.now_s, reason, next_step=step, notes=present.notes, recorded=recorded)
        row = present.waiting_row(job)
        reason, *others = self.reasons(row)
        earliest, by = self.earliest(row)
        if reason.why in {Why.NEVER, Why.DEPENDENCY, Why.STARTS}:
            earliest, by = np.nan, ""
        tried, made = (0, ()) if reason.why is Why.STARTS or not changes else changes_for(self, row, reason)
        pool, place = self._queue.of(row) if row in self._queue else (None, 0)
        return Explanation(
            job=job,
            now_s=present.now_s,
            reason=self._with_earliest(row, reason, earliest, by),
            others=tuple(others),
            next_step=str(made[0]) if made else self._step(job, reason),
            earliest_s=earliest,
            earliest_by=by,
            place=place + 1 if pool else 0,
            pool=len(pool.rows) if pool else 0,
            score=self._score_of(row),
            parts=score_parts(self.machine, self.before, row, self.order),
            ahead=self._ahead(row, self.rows_ahead(row, MOST_AHEAD)),
            overtaken_by=self._overtakers(row),
            changes=made,
            changes_tried=tried,
            notes=present.notes,
            by_priority=isinstance(present.pipeline.policy, FixedOrder),
            recorded=recorded,
        )

    def reason(self, job: str) -> Reason:
        """Return the dominant reason alone."""
        if job in self.present.asides:
            aside = self.present.asides[job]
            return Reason(aside.why, aside.text)
        return self.reasons(self.present.waiting_row(job))[0]

    def all_reasons(self) -> dict[str, Reason]:
        """Return the dominant reason of every job that waits."""
        names = (*self.present.waiting_names, *self.present.asides)
        return {name: self.reason(name) for name in names}

    def planned_starts(self) -> dict[str, float]:
        """Return when the pass has reserved a start, by job, of those for whom it has."""
        planned, rows = self.machine.state.life["planned"], self.present.waiting_rows
        now_s, status = self.present.now_s, self.machine.state.life["status"]
        return {
            name: float(planned[row])
            for name, row in rows.items()
            # one for now is no promise, unless it starts: those who have the place may go on past their time
            if np.isfinite(planned[row]) and (planned[row] > now_s or status[row] == core.RUNNING)
        }

    def reasons(self, row: int) -> list[Reason]:
        """Return why a row of the queue waits, the dominant reason first."""
        machine = self.machine
        if row in machine.reject_reason:
            return [Reason(Why.NEVER, machine.reject_reason[row])]
        status = int(machine.state.life["status"][row])
        if status == core.RUNNING:
            where = ", ".join(self.present.node_name(node) for node in self._nodes(row))
            return [Reason(Why.STARTS, f"nothing holds it; it starts in this pass on {where}", {"nodes": where})]
        if status == core.HELD:
            return [self._held(row)]
        code = int(machine.state.life["reason"][row])
        if code == core.OUT_OF_VIEW:
            return [self._out_of_view(), *self._no_room(row)]
        if not start_is_allowed(machine.w, self.before.s, row):
            return [self._limited(row), *self._no_room(row)]
        if code == core.LIMITED:
            return [self._limited(row), *self._behind(row)]
        if self.fits_before(row):
            return self._behind(row) or [Reason(Why.PRIORITY, "others are before it")]
        room, behind = self._no_room(row), self._behind(row)
        return [*behind, *room] if behind and self._others_have_it(row, room[0]) else [*room, *behind]

    def _others_have_it(self, row: int, lacks: Reason) -> bool:
        """Return whether those before it decide: where all is in use, what gets free goes to them first.

        Of what lies apart they take some in this pass; where the rest would not do in one place, they are why.
        """
        if lacks.why is not Why.FRAGMENTED:
            return lacks.why is Why.FULL
        pool, place = self._queue.of(row)
        left = int(lacks.evidence["free"]) - pool.gpus_starting_before(place)
        return left < int(lacks.evidence["wanted"])

    def fits_before(self, row: int) -> bool:
        """Return whether a row would fit if it were first."""
        asks, estimate_s = key = self._asks(row)
        if key not in self._fits:
            self._fits[key] = bool(find(self.before.w, self.before.s, asks, estimate_s, self.machine.options.placement))
        return self._fits[key]

    def _asks(self, row: int) -> tuple[int, float]:
        """Return what decides whether a row fits: its shape, and its run time where nodes are set aside for a time."""
        world = self.before.world
        estimate_s = float(self.before.state.life["estimate"][row]) if world.has_pauses else 0.0
        return int(world.job["asks"][row]), estimate_s

    def earliest(self, row: int) -> tuple[float, str]:
        """Return when a row could start by estimates if it were next, and whose end makes room then."""
        if row in self.machine.reject_reason:
            return np.nan, ""
        settle_expected(self.before.w, self.before.s)
        time = float(reserve(self.before.w, self.before.s, row, 0))
        if not np.isfinite(time) or time <= self.present.now_s:
            return time, ""
        run = self.before.state.run[: self.before.state.n[core.RUNNING_N]]
        usable = self._groups(row)
        nodes = self.before.state.node["group"]
        for i in np.flatnonzero(np.maximum(run["expected"], self.present.now_s) == time).tolist():
            other = int(run["job"][i])
            if usable[nodes[self._nodes(other)]].any():
                return time, self.present.names[other]
        return time, ""

    def _outliving(self, row: int) -> int:
        """Return how many run where a row could, for longer than was believed, if it is room that it lacks."""
        if self.fits_before(row):
            return 0
        seats, usable, group = self.present.seats, self._groups(row), self.machine.state.node["group"]
        over = seats.start_s + self.present.estimate_s[seats.rows] <= self.present.now_s
        return len(
            {
                self.present.names[int(seats.rows[i])]
                for i in np.flatnonzero(over).tolist()
                if usable[group[seats.nodes_of(i)]].any()
            }
        )

    def _with_earliest(self, row: int, reason: Reason, earliest: float, by: str) -> Reason:
        if np.isposinf(earliest) and self.present.down:
            return Reason(
                reason.why, f"{reason.text}; it cannot start before a node that is down is back", reason.evidence
            )
        if np.isfinite(earliest) and earliest <= self.present.now_s and (late := self._outliving(row)):
            have = "has" if late == 1 else "have"
            told = f"{reason.text}; {counted(late, 'running job')} there {have} outlived what was believed"
            return Reason(reason.why, f"{told} and may end any moment", {**reason.evidence, "outlived": late})
        if not np.isfinite(earliest) or earliest <= self.present.now_s:
            return reason
        ends = f" when job {by} is expected to end" if by else ""
        evidence = {**reason.evidence, "earliest_s": earliest, "earliest_by": by}
        at = f"by estimated run times at the earliest {self.present.told_time(earliest)}"
        return Reason(reason.why, f"{reason.text}; {at}{ends}", evidence)

    def _step(self, job: str, reason: Reason) -> str:
        if reason.why is Why.LIMIT and reason.evidence.get("who") == _ARRAY:
            return THROTTLE_STEP.format(job=job)
        return _STEPS.get(reason.why, "wait").format(job=job)

    def _nodes(self, row: int) -> list[int]:
        world, state = self.machine.world, self.machine.state
        first = int(world.job["chunk_at"][row])
        last = first + int(world.shape["chunks"][state.life["form"][row]])
        return list(dict.fromkeys(state.at["node"][first:last].tolist()))

    def _groups(self, row: int) -> np.ndarray:
        """Return which groups a row may use."""
        world = self.machine.world
        return np.asarray(world.mask_has[world.shape["mask"][world.job["asks"][row]]])

    def rows_ahead(self, row: int, most: int | None = None) -> list[int]:
        """Return the rows before this one in its pool, in order."""
        if row not in self._queue:
            return []
        pool, place = self._queue.of(row)
        return pool.before(place, most)

    def _score_of(self, row: int) -> float:
        return float(self.scores[self._place[row]]) if row in self._place else np.nan

    def _find_claims(self) -> dict[int, float]:
        """Return since when the guard puts rows first."""
        state = self.before.state
        head, tail = int(state.n[core.Q_HEAD]), int(state.n[core.Q_TAIL])
        if not self.machine.options.guarded or tail == head:
            return {}
        since = np.empty(tail - head)
        fill_claims(self.before.w, self.before.s, self.machine.options, tail, since)
        rows = state.queue["job"][head:tail].tolist()
        return {row: s for row, s in zip(rows, since.tolist(), strict=True) if not np.isnan(s)}

    def _held(self, row: int) -> Reason:
        left = int(self.machine.state.life["after_left"][row])
        if left > 0:
            waits_for = {self.present.names[parent] for parent in self.present.jobs.depends_on(row).tolist()}
            jobs = ", ".join(sorted(waits_for)) or counted(left, "job")
            return Reason(Why.DEPENDENCY, f"waits for job {jobs} to end", {"jobs": sorted(waits_for)})
        return self._limited(row, submitted=True)

    def _limited(self, row: int, *, submitted: bool = False) -> Reason:
        """Return which limit holds a row."""
        limit, jobs = self.before.state.limit, self.present.jobs
        for scope, counter in enumerate(self.machine.world.counters[row].tolist()):
            if counter < 0:
                continue
            one, asks = limit[counter], int(jobs.gpus[row])
            label = (jobs.user, jobs.account, jobs.vc, jobs.qos)[scope].name_of(row) if scope < len(_SCOPES) - 1 else ""
            who = f"{_SCOPES[scope]} {label}".strip()
            if submitted and one.used_submitted >= one.max_submitted:
                return _limit(who, int(one.used_submitted), int(one.max_submitted), "jobs submitted")
            if one.used_gpus + asks > one.max_gpus:
                return _limit(who, int(one.used_gpus), int(one.max_gpus), "GPUs in use", f", and it asks for {asks}")
            if one.used_running >= one.max_running:
                return _limit(who, int(one.used_running), int(one.max_running), "jobs running")
        return Reason(Why.LIMIT, "a limit is reached by jobs that start in this pass")

    def _out_of_view(self) -> Reason:
        view = self.machine.options.in_view
        return Reason(
            Why.OUT_OF_VIEW, f"the policy looks at the {view} oldest jobs, and older ones wait", {"view": view}
        )

    def _no_room(self, row: int) -> list[Reason]:
        """Return what is lacking, if it would not start even as the first."""
        if self.fits_before(row):
            return []
        key = self._asks(row)
        if key not in self._lacks:
            self._lacks[key] = RoomFor(self.present, self.before, row, self.machine.options).reason()
        return [self._lacks[key]]

    def _behind(self, row: int) -> list[Reason]:
        """Return who is before it, if somebody in its pool is."""
        pool, place = self._queue.of(row) if row in self._queue else (None, 0)
        if pool is None or not place:
            return []
        count, starting = pool.starting_before(place, _MOST_NAMED)
        _, waiting = pool.waiting_before(place, 1)
        code = int(self.machine.state.life["reason"][row])
        gpus = pool.gpus_before(place)
        evidence = {"jobs_ahead": place, "gpus_ahead": gpus, "starting": [self._name(r) for r in starting]}
        claimed, claims = pool.claiming_before(place, _MOST_NAMED)
        if row not in self._claims and claims and (not waiting or waiting[0] in self._claims):
            return [self._guarded(claimed, claims, evidence)]
        if waiting and self.fits_before(row) and code in {core.WOULD_DELAY_HEAD, core.RESERVED_LATER}:
            return [self._reserved(row, waiting[0], evidence)]
        first = self._name((waiting or starting)[0])
        kinds = f"{counted(place, 'job')} with {counted(gpus, 'GPU')} {'is' if place == 1 else 'are'} before it"
        begins = f"; {count} of them start now" if count else ""
        return [Reason(Why.PRIORITY, f"{kinds}, first job {first}{begins}", evidence)]

    def _guarded(self, count: int, claims: list[int], evidence: dict[str, object]) -> Reason:
        names = ", ".join(self._name(other) for other in claims[:3])
        waited = self.present.now_s - self._claims[claims[0]]
        since = f"owed their start for {seconds(waited)}" if np.isfinite(waited) else "under a service level agreement"
        are = "is" if count == 1 else "are"
        told = f"{counted(count, 'job')} that the guard puts first {are} before it ({names}), {since}"
        return Reason(Why.GUARD, told, {**evidence, "claims": [self._name(other) for other in claims]})

    def _reserved(self, row: int, head: int, evidence: dict[str, object]) -> Reason:
        """Return whose place it would take."""
        time = self.reserved_time(head)
        lasts = seconds(float(self.present.estimate_s[row]))
        at = f" for {self.present.told_time(time)}" if np.isfinite(time) and time > self.present.now_s else ""
        due = ", which is due" if time <= self.present.now_s else ""
        place = f"the place that is reserved{at} for job {self._name(head)}{due}"
        told = f"it would fit now, but its {lasts} would run into {place}"
        return Reason(Why.RESERVED, told, {**evidence, "job": self._name(head), "reserved_s": time})

    def reserved_time(self, head: int) -> float:
        """Return when a row is expected to start, where it is next in its pool or has a reservation."""
        planned = float(self.machine.state.life["planned"][head])
        return planned if np.isfinite(planned) else self.earliest(head)[0]

    def starts(self, row: int) -> bool:
        """Return whether a row starts in this pass."""
        return bool(self.machine.state.life["status"][row] == core.RUNNING)

    def _name(self, row: int) -> str:
        return self.present.names[row]

    def _ahead(self, row: int, rows: list[int]) -> tuple[Ahead, ...]:
        jobs, status = self.present.jobs, self.machine.state.life["status"]
        return tuple(
            Ahead(
                job=self._name(other),
                gpus=int(jobs.gpus[other]),
                estimate_s=float(self.present.estimate_s[other]),
                starts=bool(status[other] == core.RUNNING),
                text=self._why_before(row, other),
            )
            for other in rows
        )

    def _why_before(self, row: int, other: int) -> str:
        if other in self._claims and row not in self._claims:
            return "the guard puts it first"
        ours, theirs = self._score_of(row), self._score_of(other)
        if ours == theirs:
            return "it was submitted earlier"
        if isinstance(self.present.pipeline.policy, FixedOrder):
            return f"it comes first in {self.present.pipeline.policy.name}"
        return f"its score {theirs:.6g} is below {ours:.6g}"

    def _overtakers(self, row: int) -> tuple[Overtaker, ...]:
        """Find who came later and runs already where this row could run, those that started last first."""
        present, seats = self.present, self.present.seats
        usable, group = self._groups(row), self.machine.state.node["group"]
        submit = present.jobs.submit_s
        found: dict[str, Overtaker] = {}
        later = [i for i in range(len(seats)) if submit[seats.rows[i]] > submit[row]]
        for i in sorted(later, key=lambda i: -seats.start_s[i]):
            other = int(seats.rows[i])
            name = present.names[other]
            if name not in found and usable[group[seats.nodes_of(i)]].any():
                gpus = sum(int(present.jobs.gpus[r]) for r in present.rows_of[name])
                came, runs = float(submit[other] - submit[row]), float(present.now_s - seats.start_s[i])
                found[name] = Overtaker(name, gpus, came, runs)
            if len(found) == MOST_OVERTAKERS:
                break
        return tuple(found.values())


def _limit(who: str, used: int, most: int, what: str, more: str = "") -> Reason:
    return Reason(Why.LIMIT, f"{who} has {used} of {most} {what}{more}", {"who": who, "used": used, "limit": most})


def explain(present: Present, job: str, *, changes: bool = True) -> Explanation:
    """Explain why a job waits."""
    if not len(present.waiting) and not present.asides:
        raise InputError(f"{present.source or 'this moment'}: no job waits")
    return Explainer(present).explain(str(job), changes=changes)
