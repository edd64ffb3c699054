"""World and State as compiled code takes them: one pointer each.

A kernel that took the tuples themselves would be passed every array of theirs, several words each, in every call: that
was measured to make the core 20 times slower, and its compilation last minutes. A handle shares the tuple's arrays.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numba import config, njit, typeof, types
from numba.experimental import structref

from rltune.core import state as core
from rltune.core.state import Records, State, World


@structref.register
class _WorldType(types.StructRef):
    """Numba's type of a World."""


@structref.register
class _StateType(types.StructRef):
    """Numba's type of a State."""


class _WorldHandle(structref.StructRefProxy):
    """What Python holds of a World given to compiled code."""


class _StateHandle(structref.StructRefProxy):
    """What Python holds of a State given to compiled code."""


structref.define_boxing(_WorldType, _WorldHandle)
structref.define_boxing(_StateType, _StateHandle)


def _records(dtype: np.dtype[Any], dimensions: int = 1) -> Records:
    return np.zeros((1,) * dimensions, dtype).view(np.recarray)


def _plain(dtype: type, dimensions: int = 1) -> Any:
    return np.zeros((1,) * dimensions, dtype)


_WORLD = World(
    job=_records(core.JOB),
    counters=_plain(np.int64, 2),
    child=_plain(np.int64),
    shape=_records(core.SHAPE),
    chunk=_records(core.CHUNK, 2),
    mask=_records(core.MASK),
    mask_group=_plain(np.int64),
    mask_has=_plain(np.bool_, 2),
    group=_records(core.GROUP),
    pause=_records(core.PAUSE),
    event=_records(core.EVENT),
    history_key=_plain(np.int32, 3),
    history_par=_plain(np.float64, 2),
    factor_par=_plain(np.float64),
    has_limits=False,
    has_pauses=False,
    total_gpus=1.0,
)
_STATE = State(
    now=_plain(np.float64),
    n=_plain(np.int64),
    life=_records(core.LIFE),
    at=_records(core.AT),
    node=_records(core.NODE),
    bits=_plain(np.int64),
    level=_plain(np.int64),
    queue=_records(core.QUEUE),
    heap=_plain(np.int64),
    run=_records(core.RUN),
    end=_records(core.END),
    held=_plain(np.int64),
    demand=_records(core.DEMAND),
    active=_plain(np.int64),
    mask_waiting=_plain(np.int64),
    limit=_records(core.LIMIT),
    pool=_records(core.POOL),
    feasible=_plain(np.int64, 2),
    pick=_plain(np.int64),
    seen=_records(core.SEEN, 2),
    owner=_records(core.OWNER, 2),
)
_WORLD_TYPE = _WorldType([(name, typeof(part)) for name, part in _WORLD._asdict().items()])
_STATE_TYPE = _StateType([(name, typeof(part)) for name, part in _STATE._asdict().items()])


@njit(cache=True)
def _new_world(
    job,
    counters,
    child,
    shape,
    chunk,
    mask,
    mask_group,
    mask_has,
    group,
    pause,
    event,
    history_key,
    history_par,
    factor_par,
    has_limits,
    has_pauses,
    total_gpus,
):
    w = structref.new(_WORLD_TYPE)
    w.job = job
    w.counters = counters
    w.child = child
    w.shape = shape
    w.chunk = chunk
    w.mask = mask
    w.mask_group = mask_group
    w.mask_has = mask_has
    w.group = group
    w.pause = pause
    w.event = event
    w.history_key = history_key
    w.history_par = history_par
    w.factor_par = factor_par
    w.has_limits = has_limits
    w.has_pauses = has_pauses
    w.total_gpus = total_gpus
    return w


@njit(cache=True)
def _new_state(
    now,
    n,
    life,
    at,
    node,
    bits,
    level,
    queue,
    heap,
    run,
    end,
    held,
    demand,
    active,
    mask_waiting,
    limit,
    pool,
    feasible,
    pick,
    seen,
    owner,
):
    s = structref.new(_STATE_TYPE)
    s.now = now
    s.n = n
    s.life = life
    s.at = at
    s.node = node
    s.bits = bits
    s.level = level
    s.queue = queue
    s.heap = heap
    s.run = run
    s.end = end
    s.held = held
    s.demand = demand
    s.active = active
    s.mask_waiting = mask_waiting
    s.limit = limit
    s.pool = pool
    s.feasible = feasible
    s.pick = pick
    s.seen = seen
    s.owner = owner
    return s


def world_handle(world: World) -> World:
    """Give what kernels take in place of a World; with NUMBA_DISABLE_JIT=1 that is the World itself."""
    return world if config.DISABLE_JIT else cast("World", _new_world(*world))


def state_handle(state: State) -> State:
    """Give what kernels take in place of a State; it changes the same arrays."""
    return state if config.DISABLE_JIT else cast("State", _new_state(*state))
