"""Parameters, gradients and optimizer state divided over processes: a unit is held by one, and fetched by the others.

Nothing here is collective but `exchange`, which every process calls in `step()`. Between two of those no parameter
changes, so each process fetches what its own plan says, when it says so.
"""

import io
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from tencache.errors import PeerError, RefusedError
from tencache.runtime.memory.copy_lanes import Copy
from tencache.runtime.memory.nvme_file import Extent
from tencache.runtime.memory.peers import Peers
from tencache.runtime.tensors.parameter_entry import ParameterEntry

_ASK, _BYTES, _GRADIENT, _TOKEN, _LEAVE, _ASK_STATE, _STATE = range(1, 8)
STEP, NORMS = 1, 2


def share_out(sizes: Sequence[int], processes: int) -> list[int]:
    """Return which process holds each unit: the largest first, each to who has least so far."""
    held = [0] * processes
    owners = [0] * len(sizes)
    for unit in sorted(range(len(sizes)), key=lambda one: (-sizes[one], one)):
        owners[unit] = min(range(processes), key=lambda rank: (held[rank], rank))
        held[owners[unit]] += sizes[unit]
    return owners


class Shards:
    """This process's share of the units, and the ways to those of others."""

    def __init__(self, peers: Peers, entries: Sequence[ParameterEntry], owners: Sequence[int]) -> None:
        self.rank, self.size = peers.rank, peers.size
        self._peers = peers
        self._entries = entries
        self._owners = owners
        # How many updates each unit has had, here or, of another's units, in this process's own count.
        self._updates = [0] * len(owners)
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._asked: dict[int, deque[tuple[Tensor, Copy, int]]] = defaultdict(deque)
        self._waiting: list[tuple[Callable[[], bool], Callable[[], None]]] = []
        self._parts: dict[int, list[deque[Tensor]]] = {
            entry.index: [deque() for _ in range(self.size)] for entry in entries
        }
        self._contributed = [0] * len(entries)
        self._tokens: dict[tuple[int, int], tuple[int, Tensor]] = {}
        self._exchanges = 0
        self._left: set[int] = set()
        self._leaving = False
        self._states: dict[int, Tensor] = {}
        self._bytes_of: Callable[[int], Tensor] | None = None
        self._state_of: Callable[[ParameterEntry], Any] | None = None
        peers.handlers.update(
            {
                _ASK: self._on_ask,
                _BYTES: self._on_bytes,
                _GRADIENT: self._on_gradient,
                _TOKEN: self._on_token,
                _LEAVE: self._on_leave,
                _ASK_STATE: self._on_ask_state,
                _STATE: self._on_state,
            }
        )
        peers.lost = self._on_lost
        peers.start()

    def is_mine(self, unit: int) -> bool:
        """Return whether this process holds a unit."""
        return self._owners[unit] == self.rank

    @property
    def remote(self) -> frozenset[int]:
        """Return the units that others hold."""
        return frozenset(unit for unit in range(len(self._owners)) if not self.is_mine(unit))

    def serve(self, bytes_of: Callable[[int], Tensor], state_of: Callable[[ParameterEntry], Any]) -> None:
        """Begin to answer the other processes, which may have asked by now: this one's share is in its place."""
        with self._changed:
            self._bytes_of, self._state_of = bytes_of, state_of
        self._serve_waiting()

    # As a tier: what others hold is read, and never written.

    def place(self, unit: int, size_bytes: int) -> Extent:
        """Return what names a unit that another process holds."""
        return Extent(unit, size_bytes)

    def read(self, extent: Extent, buffer: Tensor, after: Copy | None = None) -> Copy:
        """Fetch a unit as it is after all updates that this process knows of."""
        del after
        unit = extent.offset
        copy = Copy(buffer, lambda: buffer, extent.bytes)
        with self._changed:
            if self._error is not None:
                copy.finish(self._error)
                return copy
            updates = self._updates[unit]
            self._asked[unit].append((buffer, copy, updates))
        self._peers.send(self._owners[unit], _ASK, unit, updates)
        return copy

    def write(self, extent: Extent, buffer: Tensor, landed: Callable[[], None] | None = None) -> Copy:
        """Let go of a unit's bytes: its owner has them."""
        copy = Copy(buffer, lambda: buffer, extent.bytes)
        if landed is not None:
            landed()
        copy.finish()
        return copy

    def updated(self, units: Iterable[int]) -> None:
        """Take in that units are updated: here, or, as this process is to see it, by their owners."""
        with self._changed:
            for unit in units:
                self._updates[unit] += 1
        self._serve_waiting()

    @property
    def has_gradients(self) -> bool:
        """Return whether this process has given gradients since the last step."""
        return any(self._contributed)

    # Gradients.

    def contribute(self, entry: ParameterEntry, gradient: Tensor, release: Callable[[], None]) -> None:
        """Send this process's share of a gradient to whoever holds the parameter; `release` frees its memory."""
        # As DistributedDataParallel does: each divides its own, then all are added.
        gradient.mul_(1 / self.size)
        self._contributed[entry.index] += 1
        if self.is_mine(entry.unit):
            own = gradient.clone(memory_format=torch.preserve_format)
            release()
            self._collect(entry, self.rank, own)
        else:
            flat = gradient.as_strided((gradient.numel(),), (1,)).view(torch.uint8)
            self._peers.send(self._owners[entry.unit], _GRADIENT, entry.index, 0, flat, release)

    def _on_gradient(self, rank: int, index: int, _: int, payload: Tensor) -> None:
        entry = self._entries[index]
        self._collect(entry, rank, payload.view(entry.dtype).as_strided(entry.shape, entry.stride))

    def _collect(self, entry: ParameterEntry, rank: int, part: Tensor) -> None:
        with self._changed:
            parts = self._parts[entry.index]
            parts[rank].append(part)
            if not all(parts):
                return
            # In the order of ranks, whatever the order of arrival.
            first, *others = [queued.popleft() for queued in parts]
            for other in others:
                first.add_(other)
            parameter = entry.parameter
            if parameter.grad is None:
                parameter.grad = first
            else:
                parameter.grad.add_(first)

    # What all do together.

    def exchange(self, what: int, payload: Tensor) -> list[Tensor]:
        """Send every process a payload, and return those of all, in the order of ranks."""
        number, self._exchanges = self._exchanges, self._exchanges + 1
        flat = payload.contiguous().view(torch.uint8).flatten()
        for rank in self._peers.others:
            self._peers.send(rank, _TOKEN, number, what, flat)
        found = []
        for rank in range(self.size):
            if rank == self.rank:
                found.append(payload)
                continue
            kind, theirs = self._await_token(rank, number)
            if kind != what:
                raise RefusedError(
                    f"process {rank} calls another function than process {self.rank}: step() and clip_grad_norm_() "
                    "must be called by every process, in the same order"
                )
            found.append(theirs.view(payload.dtype).view_as(payload) if theirs.numel() == flat.numel() else theirs)
        return found

    def check_complete(self) -> None:
        """Raise if a gradient that this process holds has not come from every process."""
        with self._changed:
            missing = [index for index, parts in self._parts.items() if any(parts)]
        if missing:
            name = self._entries[missing[0]].name
            raise RefusedError(f"{name} has a gradient in some processes only: every process must use every parameter")

    def begin_step(self) -> None:
        """Wait until every process is in `step()` with as many gradients: all have been added up then."""
        own = torch.tensor(self._contributed)
        self._contributed = [0] * len(self._entries)
        for rank, theirs in enumerate(self.exchange(STEP, own)):
            if not torch.equal(theirs, own):
                index = int((theirs != own).nonzero()[0])
                for parts in self._parts.values():
                    for queued in parts:
                        queued.clear()
                raise RefusedError(
                    f"{self._entries[index].name} has {int(own[index])} gradients in process {self.rank} and "
                    f"{int(theirs[index])} in process {rank}: every process must use the same parameters"
                )

    def leave(self) -> None:
        """Go on serving until every process leaves or is gone, then stop."""
        with self._changed:
            self._leaving = True
        for rank in self._peers.others:
            self._peers.send(rank, _LEAVE)
        with self._changed:
            while self._error is None and len(self._left) < self.size - 1:
                self._changed.wait(0.5)
            if self._error is not None:
                return
        self._peers.close()

    def give_up(self) -> None:
        """Stop at once, which is an error for the others: this process could not be set up."""
        self._peers.close(patience_s=0.1)

    def fetch_state(self, entry: ParameterEntry) -> Any:
        """Return the optimizer's state of a parameter that another process holds."""
        self._peers.send(self._owners[entry.unit], _ASK_STATE, entry.index, self._updates[entry.unit])
        with self._changed:
            while entry.index not in self._states:
                self._raise()
                self._changed.wait(0.5)
            payload = self._states.pop(entry.index)
        return torch.load(io.BytesIO(payload.numpy().tobytes()), weights_only=True)

    def _await_token(self, rank: int, number: int) -> tuple[int, Tensor]:
        with self._changed:
            while (rank, number) not in self._tokens:
                self._raise()
                if rank in self._left:
                    raise PeerError(f"process {rank} has unwrapped its model: do so in every process at the same point")
                self._changed.wait(0.5)
            return self._tokens.pop((rank, number))

    def _raise(self) -> None:
        if self._error is not None:
            raise PeerError(str(self._error)) from self._error

    # What the threads do with messages: nothing that waits.

    def _on_ask(self, rank: int, unit: int, updates: int, _: Tensor) -> None:
        def answer() -> None:
            assert self._bytes_of is not None
            self._peers.send(rank, _BYTES, unit, self._updates[unit], self._bytes_of(unit))

        self._when(lambda: self._updates[unit] >= updates, answer)

    def _on_ask_state(self, rank: int, index: int, updates: int, _: Tensor) -> None:
        entry = self._entries[index]

        def answer() -> None:
            file = io.BytesIO()
            assert self._state_of is not None
            torch.save(self._state_of(entry), file)
            self._peers.send(rank, _STATE, index, 0, torch.frombuffer(file.getbuffer(), dtype=torch.uint8))

        self._when(lambda: self._updates[entry.unit] >= updates, answer)

    def _on_state(self, _: int, index: int, __: int, payload: Tensor) -> None:
        with self._changed:
            self._states[index] = payload
            self._changed.notify_all()

    def _on_bytes(self, rank: int, unit: int, updates: int, payload: Tensor) -> None:
        with self._changed:
            buffer, copy, asked = self._asked[unit].popleft()
        if updates != asked or payload.numel() != buffer.numel():
            raise PeerError(
                f"process {rank} sent {payload.numel()} bytes after {updates} updates where {buffer.numel()} after "
                f"{asked} were asked for: please report this program"
            )
        buffer.copy_(payload)
        copy.finish()

    def _on_token(self, rank: int, number: int, what: int, payload: Tensor) -> None:
        with self._changed:
            self._tokens[rank, number] = (what, payload)
            self._changed.notify_all()

    def _on_leave(self, rank: int, *_: Any) -> None:
        with self._changed:
            self._left.add(rank)
            self._changed.notify_all()

    def _on_lost(self, rank: int, error: BaseException) -> None:
        with self._changed:
            # Once both have left, who ends first does not matter.
            if self._leaving and rank in self._left:
                return
            self._error = self._error or PeerError(
                f"process {rank} has ended, and with it the parameters that it held: go back to a checkpoint ({error})"
            )
            asked = [pair for some in self._asked.values() for pair in some]
            self._asked.clear()
            self._changed.notify_all()
        for _, copy, _ in asked:
            copy.finish(self._error)

    def _when(self, ready: Callable[[], bool], answer: Callable[[], None]) -> None:
        with self._changed:
            if self._bytes_of is None or not ready():
                self._waiting.append((ready, answer))
                return
        answer()

    def _serve_waiting(self) -> None:
        with self._changed:
            due = [answer for ready, answer in self._waiting if ready()]
            self._waiting = [pair for pair in self._waiting if not pair[0]()]
        for answer in due:
            answer()
