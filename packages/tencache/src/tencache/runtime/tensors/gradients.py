"""Gradients leave the device as they appear, and are added up on the host as autograd would have."""

from collections import deque
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from tencache.errors import RefusedError
from tencache.runtime.counters import Counters
from tencache.runtime.memory.copy_lanes import Copy, CopyBatch
from tencache.runtime.memory.device_arena import users
from tencache.runtime.memory.host_pool import HostPool
from tencache.runtime.memory.link import Link
from tencache.runtime.tensors.parameter_entry import ParameterEntry, cut_pieces, flat
from tencache.runtime.tensors.units import SMALL_BYTES


class Gradients:
    """The way down. At most `window_bytes` are on it at a time; backward waits beyond that."""

    def __init__(
        self, link: Link, pool: HostPool, window_bytes: int, counters: Counters, *, stage_casts: bool = False
    ) -> None:
        self.window_bytes = window_bytes
        self._link = link
        self._pool = pool
        self._counters = counters
        self._flying: deque[Copy] = deque()
        self._flying_bytes = 0
        self._batch = CopyBatch()
        # As for parameters: whether a half lands in a buffer of its own type, or is widened by the copy.
        self._stage_casts = stage_casts
        # Where gradients go that are divided over processes: what is called when one has landed.
        self.contribute: Callable[[ParameterEntry, Tensor, Callable[[], None]], None] | None = None

    def send(self, entry: ParameterEntry, gradient: Tensor) -> int:
        """Start a gradient's copy to the parameter's `.grad`, small ones collected into one; return its bytes."""
        if gradient.is_sparse:
            raise RefusedError(
                f"{entry.name} has a sparse gradient, which has no fixed size: use Embedding(sparse=False)"
            )
        gradient = self._narrowest(entry, gradient)
        size_bytes = gradient.nbytes
        # Asked in this order: a gradient that lands in between is seen.
        pending = entry.gradient is not None and not entry.gradient.done
        first = not pending and entry.parameter.grad is None
        if self.contribute is not None:
            target, landed = self._give(entry, self.contribute)
        else:
            target, landed = self._replace(entry) if first else self._add(entry)
        # A parameter's gradients are all small or all large, so they all take the same way and stay in order.
        if entry.size_bytes < SMALL_BYTES:
            entry.gradient = self._batch
            self._batch.add(target, gradient, landed)
            if self._batch.size_bytes >= SMALL_BYTES:
                self.flush()
            return size_bytes
        # Small ones leave with the next large one at the latest, so none of them holds the optimizer up.
        self.flush()
        entry.gradient_pieces = []
        if self._stage_casts and gradient.dtype != entry.dtype:
            target, landed = self._staged(entry, gradient, target, landed)
        elif first and gradient.stride() == target.stride() and entry.is_dense():
            gradient, target = self._put_pieces(entry, flat(gradient), flat(target))
        entry.gradient = Copy(target, _once(gradient), gradient.nbytes, landed)
        del gradient
        self._put(entry.gradient)
        return size_bytes

    def _put_pieces(self, entry: ParameterEntry, gradient: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Send all but the last piece of a large gradient, and return that: its update can follow piece by piece."""
        *pieces, (begin, end) = cut_pieces(target.numel(), target.element_size())
        for first, last in pieces:
            copy = Copy(target[first:last], _once(gradient[first:last]), gradient[first:last].nbytes)
            entry.gradient_pieces.append(copy)
            self._put(copy)
        return gradient[begin:end], target[begin:end]

    def flush(self) -> None:
        """Send the small gradients that wait."""
        if self._batch.size_bytes:
            batch, self._batch = self._batch, CopyBatch()
            self._put(batch)

    def _put(self, copy: Copy) -> None:
        # Gradients hold device memory until they have left: without a limit, a slow link would let them fill it.
        self._make_room(copy.size_bytes)
        copy.fence = self._link.fence()
        copy.at_once = True
        self._flying.append(copy)
        self._flying_bytes += copy.size_bytes
        peak = max(self._counters.gradients_in_flight_peak_bytes, self._flying_bytes)
        self._counters.gradients_in_flight_peak_bytes = peak
        self._link.down.put(copy)

    def forget(self) -> None:
        """Drop copies that have arrived."""
        self._flying.clear()
        self._flying_bytes = 0

    def landed(self, entry: ParameterEntry) -> bool:
        """Return whether the parameter's `.grad` is complete."""
        if entry.gradient is self._batch:
            self.flush()
        return entry.gradient is None or entry.gradient.done

    def wait(self, entry: ParameterEntry) -> None:
        """Wait until the parameter's `.grad` is complete."""
        if entry.gradient is self._batch:
            self.flush()
        if entry.gradient is not None:
            self._wait_over(entry.gradient)
            entry.gradient.wait()
            entry.gradient = None

    def wait_all(self, entries: Iterable[ParameterEntry]) -> None:
        """Wait until every `.grad` is complete."""
        for entry in entries:
            if entry.gradient is not None:
                self.wait(entry)

    def _give(
        self, entry: ParameterEntry, contribute: Callable[[ParameterEntry, Tensor, Callable[[], None]], None]
    ) -> tuple[Tensor, Callable[[], None]]:
        """Return a target that is this process's share of a gradient, and what gives it away when it has landed."""
        buffer = self._pool.take(entry.size_bytes)
        target = entry.like(buffer)
        return target, lambda: contribute(entry, target, lambda: self._pool.give(buffer))

    def _replace(self, entry: ParameterEntry) -> tuple[Tensor, Callable[[], None]]:
        """Return a copy's target, the buffer that becomes `.grad`, and what to do when it has landed."""
        # Not a view, of which torch would refuse the detach_() that many loops zero gradients with.
        target = self._buffer(entry).as_strided(entry.shape, entry.stride).data

        # Set only when the bytes are there: until then `.grad` is None, and reading it waits (OperationRouter.get).
        def landed() -> None:
            entry.parameter.grad = target

        return target, landed

    def _add(self, entry: ParameterEntry) -> tuple[Tensor, Callable[[], None]]:
        """Return a target beside `.grad`, and what adds it to `.grad` when it has landed."""
        buffer = self._pool.take(entry.size_bytes)
        target = entry.like(buffer)

        def landed() -> None:
            # Read when it lands, not when it is sent: the gradient before it may have been on its way then.
            grad = entry.parameter.grad
            assert grad is not None
            # old + new, rounded as autograd would: the order of the operands does not matter, that of arrival does.
            grad.add_(target)
            self._pool.give(buffer)

        return target, landed

    def _staged(
        self, entry: ParameterEntry, gradient: Tensor, target: Tensor, landed: Callable[[], None]
    ) -> tuple[Tensor, Callable[[], None]]:
        """Return a target of the gradient's own type, and what widens it into its real target when it has landed."""
        buffer = self._pool.take(gradient.nbytes)
        staged = entry.flat(buffer, gradient.dtype).as_strided(entry.shape, entry.stride)

        def widened() -> None:
            target.copy_(staged)
            self._pool.give(buffer)
            landed()

        return staged, widened

    def _narrowest(self, entry: ParameterEntry, gradient: Tensor) -> Tensor:
        """Return a gradient in the precision it has: if it is that of one cast and nothing else, the cast's own."""
        if not entry.cast_gradients:
            return gradient
        backward_id = torch._C._current_graph_task_id()  # noqa: SLF001
        halves = [half for made_by, half in entry.cast_gradients if made_by == backward_id]
        entry.cast_gradients.clear()
        # Two casts, as in two autocast contexts, are added up in the leaf's own type; hooks may have changed the sum.
        if entry.leaf._backward_hooks:  # noqa: SLF001
            return gradient
        return halves[0] if len(halves) == 1 and not entry.used_whole and entry.size_bytes >= SMALL_BYTES else gradient

    def _buffer(self, entry: ParameterEntry) -> Tensor:
        """Return the parameter's own gradient buffer in its type, unless someone still refers to what it held."""
        old = entry.gradient_buffer
        if old is not None and users(old) <= _BUFFER_IDLE_USERS:
            return old
        entry.gradient_buffer = self._pool.take(entry.size_bytes).view(entry.dtype)
        return entry.gradient_buffer

    def _make_room(self, size_bytes: int) -> None:
        flying = self._flying
        while flying and (flying[0].done or self._flying_bytes + size_bytes > self.window_bytes):
            copy = flying.popleft()
            self._flying_bytes -= copy.size_bytes
            # What went wrong is raised where this gradient is needed; the one that needs its room must not be lost.
            self._wait_over(copy)

    def _wait_over(self, copy: Copy) -> None:
        if not copy.done:
            # What counts is how long the device has nothing to do, not how long the host waits for it.
            began = self._link.mark()
            copy.wait_over()
            self._link.note_between(began, self._link.mark(), self._stalled)

    def _stalled(self, seconds: float) -> None:
        self._counters.gradient_stall_s += seconds


# The buffer itself, and the storage object that counting makes. One more is a `.grad` that user code still holds.
_BUFFER_IDLE_USERS = 2


def _once(gradient: Tensor) -> Callable[[], Tensor]:
    """Return a source that gives the tensor away, so that its memory is free as soon as the bytes have left."""
    box = [gradient]
    return box.pop
