"""Messages between processes, each way in order, on threads: nobody has to be asked to listen.

Built on `torch.distributed`'s sends and receives between host tensors, so on gloo.
"""

import atexit
import queue
import threading
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from tencache.errors import PeerError
from tencache.runtime.unrouted import Unrouted

_HEADER, _PAYLOAD = 1, 2
_END = 0
# A process that computes for long is not one that has failed: that one's connection is gone.
_PATIENCE = timedelta(days=30)
_PATIENCE_AT_EXIT_S = 5.0
Handler = Callable[[int, int, int, Tensor], None]


class Peers:
    """The other processes of a group.

    A message has a kind, two numbers, and bytes. What arrives is handled on the thread that received it, by `handlers`,
    which must not wait for other messages. Once a process is lost, whoever waits for it is told by `lost`.
    """

    def __init__(self, group: Any) -> None:
        # A group of its own: its messages cannot meet those of the program.
        self._group = dist.new_group(dist.get_process_group_ranks(group), timeout=_PATIENCE, backend="gloo")
        self.rank, self.size = dist.get_rank(self._group), dist.get_world_size(self._group)
        self.handlers: dict[int, Handler] = {}
        self.lost: Callable[[int, BaseException], None] = lambda _, __: None
        self._queues = {rank: queue.SimpleQueue[tuple[Any, ...]]() for rank in self.others}
        self._threads: list[threading.Thread] = []

    @property
    def others(self) -> list[int]:
        """Return the other processes' ranks."""
        return [rank for rank in range(self.size) if rank != self.rank]

    def start(self) -> None:
        """Begin to send and to listen; every kind that may come has its handler by now."""
        for rank in self.others:
            for name, work in (("to", self._send_all), ("from", self._receive_all)):
                thread = threading.Thread(target=work, args=(rank,), name=f"tencache-{name}-{rank}", daemon=True)
                thread.start()
                self._threads.append(thread)
        atexit.register(self._close_at_exit)

    def share_from_first(self, tensors: Iterable[Tensor]) -> None:
        """Copy the first process's bytes to all, as DistributedDataParallel does."""
        for tensor in tensors:
            flat = tensor if tensor.is_contiguous() else tensor.contiguous()
            dist.broadcast(flat, group=self._group, group_src=0)
            if flat is not tensor:
                tensor.copy_(flat)

    def send(
        self,
        rank: int,
        kind: int,
        number: int = 0,
        extra: int = 0,
        payload: Tensor | None = None,
        sent: Callable[[], None] | None = None,
    ) -> None:
        """Queue a message; `sent` is called once its bytes may change."""
        self._queues[rank].put((kind, number, extra, payload, sent))

    def close(self, *, patience_s: float | None = None) -> None:
        """Send what is queued, and stop once the others have, too, or patience is over."""
        atexit.unregister(self._close_at_exit)
        for rank in self.others:
            self.send(rank, _END)
        for thread in self._threads:
            thread.join(patience_s)

    def _close_at_exit(self) -> None:
        # A thread that still listens when the interpreter ends would abort the process.
        self.close(patience_s=_PATIENCE_AT_EXIT_S)

    def _send_all(self, rank: int) -> None:
        group = self._group
        try:
            while True:
                kind, number, extra, payload, sent = self._queues[rank].get()
                size_bytes = 0 if payload is None else payload.numel()
                dist.send(torch.tensor([kind, number, extra, size_bytes]), group=group, group_dst=rank, tag=_HEADER)
                if size_bytes:
                    dist.send(payload, group=group, group_dst=rank, tag=_PAYLOAD)
                if sent is not None:
                    sent()
                if kind == _END:
                    return
        except BaseException as error:  # noqa: BLE001  whoever waits raises it
            self.lost(rank, error)

    def _receive_all(self, rank: int) -> None:
        header = torch.zeros(4, dtype=torch.int64)
        try:
            with Unrouted():
                while True:
                    dist.recv(header, group=self._group, group_src=rank, tag=_HEADER)
                    kind, number, extra, size_bytes = header.tolist()
                    if kind == _END:
                        self.lost(rank, PeerError("it has closed the connection"))
                        return
                    payload = torch.empty(size_bytes, dtype=torch.uint8)
                    if size_bytes:
                        dist.recv(payload, group=self._group, group_src=rank, tag=_PAYLOAD)
                    self.handlers[kind](rank, number, extra, payload)
        except BaseException as error:  # noqa: BLE001  whoever waits raises it
            self.lost(rank, error)
