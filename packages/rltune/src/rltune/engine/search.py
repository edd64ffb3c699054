"""Decision-time search around any policy: before a pass orders of the queue are rolled forward; the best is taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rltune.errors import InputError
from rltune.kernel.rollout import order_search as kernels
from rltune.kernel.rollout.believed_world import make_sketch, room_needed
from rltune.kernel.score.rules import GIVEN, SAF, UNICEP, WFP3
from rltune.kernel.state import arrays as core
from rltune.kernel.state.handles import Arrays, plans_handle, state_handle, world_handle

OFF = "off"
GOALS = {"wait": kernels.WAIT, "slowdown": kernels.SLOWDOWN}
KINDS = {kernels.PROMOTED: "promoted", kernels.BY_RULE: "by_rule", kernels.SHUFFLED: "shuffled"}
FORMS = "16 (orders tried in a pass), 16:slowdown (for bounded slowdown, not wait), 16:5ms (live: in 5 ms at most), off"
MOST = 4096
ROLLOUTS = "search_rollouts"


@dataclass(frozen=True)
class Search:
    """How many orders are tried in a pass, the policy's own among them, and for what; live, in how much time."""

    candidates: int = 1
    goal: str = "wait"
    ms: float | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.candidates <= MOST or self.goal not in GOALS or not (self.ms is None or self.ms > 0):
            raise InputError(f"search {self} is not understood; write {FORMS}")

    def __str__(self) -> str:
        goal = f":{self.goal}" if self.goal != "wait" else ""
        ms = f":{self.ms:g}ms" if self.ms is not None else ""
        return f"{self.candidates}{goal}{ms}" if self else OFF

    def __bool__(self) -> bool:
        return self.candidates > 1


def get_search(spec: str | int | Search | None) -> Search:
    """Read a search such as `16`, `16:slowdown` or `32:5ms`; None, 0, 1 and `off` are none at all."""
    if isinstance(spec, Search):
        return spec
    if spec is None or spec == OFF:
        return Search()
    number, *parts = str(spec).split(":")
    if not number.isdecimal() or int(number) > MOST:
        raise InputError(f"search {spec!r} is not understood; write {FORMS}")
    goal, ms = "wait", None
    for part in parts:
        if part in GOALS:
            goal = part
        elif part.endswith("ms"):
            ms = _number(part.removesuffix("ms"), spec)
        else:
            raise InputError(f"search {spec!r} is not understood; write {FORMS}")
    return Search(max(int(number), 1), goal, ms)


def _number(text: str, spec: str | int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise InputError(f"search {spec!r} is not understood; write {FORMS}")
    return value


class Searcher:
    """The search's part of a run: asked before each pass, it says under which options to make it.

    `rollouts`: of a single pass that is made again, how many orders were tried then; the timer is not asked.
    """

    def __init__(
        self,
        arrays: Arrays,
        options: core.Options,
        search: Search,
        seed: int,
        rollouts: int = 0,
        timer: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._arrays, self._w, self._s, self._passes = arrays, arrays.w, arrays.s, _passes(options)
        self._search, self._seed, self._rollouts = search, seed, rollouts
        self._timer = timer
        self._goal = GOALS[search.goal]
        self._room = (0, 0)
        self.passes = self.searched = self.rolled = 0
        self.gained = 0.0
        self.taken: Counter[int] = Counter()

    def look(self) -> core.Options:
        """Search, if there is anything to choose: the policy's own options, or those of an order put into the queue."""
        self.passes += 1
        if not kernels.worth_searching(self._w, self._s, self._passes.own):
            return self._passes.own
        self._make_room()
        self._seed_pass()
        self._try_all()
        n, value = self._plans.n, self._plans.value
        self.searched += 1
        self.rolled += int(n[kernels.ROLLED])
        if n[kernels.BEST_KIND] == kernels.OWN:
            return self._passes.own
        self.taken[int(n[kernels.BEST_KIND])] += 1
        self.gained += float(value[kernels.OWN_VALUE] - value[kernels.BEST_VALUE])
        kernels.take_best(self._s, self._p)
        return self._passes.given

    def _try_all(self) -> None:
        """Try as many orders as may be; by the clock one at a time."""
        begin = self._timer()
        sketch = (self._small, self._drawn, self._rolled, self._p)
        if self._search.ms is None and not self._rollouts:
            kernels.search(self._w, self._s, self._passes, *sketch, self._goal)
            return
        kernels.begin_search(self._w, self._s, self._passes, *sketch, self._goal)
        while self._may_go_on(begin) and kernels.try_next(self._passes, *sketch, self._goal):
            pass

    def _may_go_on(self, begin: float) -> bool:
        """Return whether another order may be tried: by the clock, or up to as many as there were."""
        if self._rollouts:
            return bool(self._plans.n[kernels.ROLLED] < self._rollouts)
        return self._search.ms is None or self._timer() - begin < self._search.ms / 1e3

    def _seed_pass(self) -> None:
        """Draw by the seed and the number of the pass alone, so that no pass depends on how much others tried."""
        pair = np.random.default_rng((self._seed, self.passes)).integers(1, 2147483398, 2)
        self._plans.n[[kernels.SEED_1, kernels.SEED_2]] = pair

    def _make_room(self) -> None:
        """Make a sketch as large as the moment, twice as large as before if that was too small."""
        needed = room_needed(self._w, self._s)
        if all(n <= room for n, room in zip(needed, self._room, strict=True)):
            return
        self._room = (2 * needed[0], 2 * needed[1])
        small, drawn, rolled = make_sketch(self._arrays.world, self._arrays.state, *self._room)
        self._small, self._drawn, self._rolled = world_handle(small), state_handle(drawn), state_handle(rolled)
        self._plans = _plans(self._room[0], self._search.candidates)
        self._p = plans_handle(self._plans)

    def to_dict(self) -> dict[str, Any]:
        """Return what was done: replay needs the number of orders tried, readers what it was good for."""
        changed = sum(self.taken.values())
        kinds = {f"search_took_{name}": self.taken[kind] for kind, name in KINDS.items()}
        gained = self.gained / changed if changed else 0.0
        done = {"search_passes": self.searched, ROLLOUTS: self.rolled, "search_changed": changed}
        return {**done, **kinds, f"search_gain_per_change_{self._search.goal}": gained}


def _passes(o: core.Options) -> core.Passes:
    """Make the options of the passes tried and to come: these by the policy's rule, or by SAF if it is none."""
    rule = o.policy if o.policy <= UNICEP else SAF
    dynamic = rule in {WFP3, UNICEP} or o.guarded or o.in_view > 0
    later = o._replace(policy=rule, dynamic=dynamic, estimate_by_history=False, rank_by_history=False)
    return core.Passes(
        own=o,
        given=o._replace(policy=GIVEN, dynamic=True, relook=False),
        later=later._replace(relook=False, explain=False),
    )


def _plans(jobs: int, candidates: int) -> core.Plans:
    def ints() -> core.I8:
        return np.zeros(jobs, dtype=np.int64)

    return core.Plans(
        n=np.zeros(kernels.N_PLANS, dtype=np.int64),
        value=np.zeros(2),
        own=ints(),
        best=ints(),
        tried=ints(),
        later=ints(),
        waits=ints(),
        score=np.zeros(jobs),
        action=np.zeros(candidates, dtype=np.int64),
    )
