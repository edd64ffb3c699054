"""What a job lacks that does not fit: GPUs, GPUs together, CPUs and memory beside them, or nodes not set aside."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rltune.explain.explanation import Reason
from rltune.kernel.fit.allocate import find
from rltune.kernel.fit.chunk_need import chunk_cpu, chunk_mem
from rltune.kernel.state import arrays as core
from rltune.kernel.state.handles import Arrays, world_handle
from rltune.present.present import Present, SetAside, Why
from rltune.text import counted, seconds

_MOST_NAMED = 5


class RoomFor:
    """The nodes that a waiting row may use, as they are before a pass."""

    def __init__(self, present: Present, arrays: Arrays, row: int, options: core.Options) -> None:
        self._present, self._arrays, self._row, self._options = present, arrays, row, options
        world, state = arrays.world, arrays.state
        self._shape = int(world.job["asks"][row])
        usable = np.asarray(world.mask_has[world.shape["mask"][self._shape]])
        self._nodes = np.flatnonzero(usable[state.node["group"]])
        self._up = self._nodes[state.node["up"][self._nodes] == 1]
        chunk = world.chunk[self._shape]
        self._chunks = [(int(c.n), int(c.gpus), kind) for kind, c in enumerate(chunk) if c.n > 0]
        self._estimate_s = float(state.life["estimate"][row])

    def reason(self) -> Reason:
        """Return what is lacking; the job is known not to fit."""
        set_aside = self._set_aside()
        if set_aside is not None:
            return set_aside
        if len(self._up) < len(self._nodes) and not self._enough(self._gpus_of(self._up)):
            return self._down()
        free = self._arrays.state.node["gpu"][self._up]
        wanted = sum(n * gpus for n, gpus, _ in self._chunks)
        large = self._large_enough(self._up)
        if int(free[large].sum()) < wanted or wanted == 0:
            return self._full(free, wanted)
        if not self._enough(free):
            return self._fragmented(free, large, wanted)
        return self._lacks_beside(free)

    def _set_aside(self) -> Reason | None:
        """Return whose window is in the way, if without windows it would fit."""
        world, state = self._arrays.world, self._arrays.state
        if not world.has_pauses:
            return None
        free_of = world_handle(world._replace(has_pauses=False))
        if not find(free_of, self._arrays.s, self._shape, self._estimate_s, self._options.placement):
            return None
        now = float(state.now[0])
        end = now + self._estimate_s
        mine = set(self._up.tolist())
        found = [w for w in self._present.windows if w.start_s < end and w.end_s > now and w.nodes & mine]
        return _window_reason(self._present, min(found, key=lambda w: w.start_s), self._estimate_s) if found else None

    def _enough(self, free: np.ndarray) -> bool:
        """Return whether nodes have the GPUs, whatever their CPUs and memory; largest chunks first."""
        left = np.sort(free)[::-1]
        wanted = [gpus for n, gpus, _ in self._chunks for _ in range(n)]
        return len(wanted) <= len(left) and all(
            l >= g for l, g in zip(left, sorted(wanted, reverse=True), strict=False)
        )

    def _gpus_of(self, nodes: np.ndarray) -> np.ndarray:
        """Return how many GPUs nodes have, used or not."""
        return np.asarray(self._arrays.world.group["gpus"][self._arrays.state.node["group"][nodes]])

    def _down(self) -> Reason:
        """Return a sentence that the nodes which are up would not do, were they empty."""
        down = sorted(set(self._nodes.tolist()) - set(self._up.tolist()))
        names = ", ".join(self._present.node_name(node) for node in down[:_MOST_NAMED])
        more = f" and {len(down) - _MOST_NAMED} more" if len(down) > _MOST_NAMED else ""
        up, of = counted(len(self._up), "node"), len(self._nodes)
        lacks = f"{up} of the {of} it may use would not do" if len(self._up) else "no node that it may use is up"
        told = f"needs {self._asked()}; {lacks}; down: {names}{more}"
        return Reason(Why.DOWN, told, {"nodes": len(self._nodes), "nodes_down": len(down)})

    def _large_enough(self, nodes: np.ndarray) -> np.ndarray:
        """Return which nodes could hold any part of the job, were they empty."""
        return np.asarray(self._gpus_of(nodes) >= min((gpus for _, gpus, _ in self._chunks), default=0))

    def _full(self, free: np.ndarray, wanted: int) -> Reason:
        """Return how much is in use of what it may use: nodes that are too small for it count apart."""
        large = self._nodes[self._large_enough(self._nodes)]
        of_large = int(free[self._large_enough(self._up)].sum())
        total, down = int(self._gpus_of(large).sum()), len(self._nodes) - len(self._up)
        away = f"; {counted(down, 'node')} of them {'is' if down == 1 else 'are'} down" if down else ""
        small = int(free.sum()) - of_large
        beside = _too_small(small)
        if wanted == 0:
            told = "needs CPUs or memory that no node it may use has free"
        else:
            told = f"needs {self._asked()}; {of_large} of the {total} {self._what()} it may use are free{beside}{away}"
        evidence = {"wanted": wanted, "free": of_large, "total": total, "nodes_down": down, "free_too_small": small}
        return Reason(Why.FULL, told, evidence)

    def _fragmented(self, free: np.ndarray, large: np.ndarray, wanted: int) -> Reason:
        """Return how what is free lies on the nodes that are large enough; what others have free counts apart."""
        of_large = free[large]
        total, most, over = int(of_large.sum()), int(of_large.max(initial=0)), int((of_large > 0).sum())
        small = int(free.sum()) - total
        spread = f"{total} {self._what()} are free but over {counted(over, 'node')}, the most on one is {most}"
        told = f"needs {self._asked()}; {spread}{_too_small(small)}"
        evidence = {
            "wanted": wanted,
            "free": total,
            "over_nodes": over,
            "most_on_one": most,
            "free_too_small": small,
        }
        return Reason(Why.FRAGMENTED, told, evidence)

    def _lacks_beside(self, free: np.ndarray) -> Reason:
        """Return a sentence that CPUs or memory are lacking where there are GPUs."""
        w, node = self._arrays.world, self._arrays.state.node
        _, gpus, kind = self._chunks[0]
        having = self._up[free >= gpus]
        groups = node["group"][having]
        cpu = np.array([chunk_cpu(self._arrays.w, self._shape, kind, int(g)) for g in groups.tolist()])
        mem = np.array([chunk_mem(self._arrays.w, self._shape, kind, int(g)) for g in groups.tolist()])
        lacks = [
            name
            for name, short in (("CPUs", node["cpu"][having] < cpu), ("memory", node["mem"][having] < mem))
            if short.any()
        ]
        what = " and ".join(lacks) or "CPUs or memory"
        told = (
            f"needs {self._asked()}; {counted(len(having), 'node')} would have the GPUs, but not the {what} beside them"
        )
        return Reason(Why.NO_FIT, told, {"nodes_with_gpus": len(having), "lacks": lacks, "groups": len(w.group)})

    def _asked(self) -> str:
        """Write what the job asks: 8 GPUs on one node."""
        return asked([(n, gpus) for n, gpus, _ in self._chunks])

    def _what(self) -> str:
        """Name the GPUs that it may use."""
        groups = self._arrays.state.node["group"][self._nodes]
        types = {self._present.cluster.groups[g].gpu_type for g in np.unique(groups).tolist()}
        return f"{next(iter(types))} GPUs" if len(types) == 1 and types != {""} else "GPUs"


def _too_small(free: int) -> str:
    """Say what is free where the job cannot go, beside what is free where it can."""
    return f", and {free:,} on nodes too small for it" if free else ""


def asked(chunks: Sequence[tuple[int, int]]) -> str:
    """Write what a job asks of nodes: 8 GPUs on one node, 4 x 8 GPUs."""
    if not any(gpus for _, gpus in chunks):
        return f"CPUs and memory on {counted(sum(n for n, _ in chunks), 'node')}"
    if len(chunks) == 1 and chunks[0][0] == 1:
        return f"{counted(chunks[0][1], 'GPU')} on one node"
    return " + ".join(f"{n} x {gpus}" for n, gpus in chunks) + " GPUs, each on a node of its own"


def _window_reason(present: Present, window: SetAside, estimate_s: float) -> Reason:
    """Return which window is in the way."""
    begins = "has begun" if window.start_s <= present.now_s else f"begins {present.told_time(window.start_s)}"
    evidence = {"window": window.name, "start_s": window.start_s, "end_s": window.end_s}
    if window.maintenance:
        what = "maintenance" if window.name == "maintenance" else f"maintenance {window.name}"
        told = f"it is expected to run for {seconds(estimate_s)}, and {what} {begins} on nodes it needs"
        return Reason(Why.MAINTENANCE, f"{told}, until {present.told_time(window.end_s)}", evidence)
    whom = f" for {window.who}" if window.who else ""
    told = f"nodes it needs are reserved{whom} ({window.name}), which {begins} and lasts"
    return Reason(Why.RESERVED, f"{told} until {present.told_time(window.end_s)}", evidence)
