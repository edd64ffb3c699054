"""Gradients averaged over processes, as DistributedDataParallel does it, but on the host, where they are.

DDP's own hooks wait for gradients at the parameters, and those are made at the device copies. So DDP itself reduces
nothing here; it says only with whom, and whether, to reduce.
"""

import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors
from torch.nn.parallel import DistributedDataParallel

from tencache.errors import RefusedError
from tencache.runtime.tensors.gradients import Gradients
from tencache.runtime.tensors.parameter_entry import ParameterEntry

BUCKET_BYTES = 25 * 2**20
# What DDP does otherwise with these is not done here.
_OTHER_WAYS = ("find_unused_parameters", "static_graph", "gradient_as_bucket_view", "mixed_precision", "_comm_hooks")


class GradientReduction:
    """Averages the gradients of a backward once all of them have arrived."""

    def __init__(self, entries: Sequence[ParameterEntry], gradients: Gradients) -> None:
        self._entries = entries
        self._gradients = gradients
        self._group: Any = None
        self._arrived: set[int] = set()
        self._around: weakref.WeakSet[DistributedDataParallel] = weakref.WeakSet()

    @property
    def inside_ddp(self) -> bool:
        """Return whether a forward was run by DDP."""
        return bool(self._around)

    def forward_begins(self, ddp: DistributedDataParallel | None) -> None:
        """Take in whether the gradients of this forward are to be reduced, and with whom."""
        self.refuse_unfinished()
        self._group = None
        if ddp is None:
            return
        self._around.add(ddp)
        self._check(ddp)
        if torch.is_grad_enabled() and ddp.require_backward_grad_sync:
            self._group = ddp.process_group

    @property
    def active(self) -> bool:
        """Return whether the gradients of the last forward are to be reduced."""
        return self._group is not None

    def arrived(self, entry: ParameterEntry) -> None:
        """Take in that a parameter's gradient is on its way to the host; after the last one, reduce them all."""
        if entry.index in self._arrived:
            raise RefusedError(
                f"{entry.name} has two gradients where DistributedDataParallel reduces one: call backward() once for "
                "each forward, and use no_sync() for all but the last"
            )
        self._arrived.add(entry.index)
        trained = [one for one in self._entries if one.parameter.requires_grad]
        # The same parameters in the same order in every process, whatever the order of arrival.
        if all(one.index in self._arrived for one in trained):
            self._arrived.clear()
            self._reduce(trained)
            # As with DDP, another backward through the same graph adds what each process has by itself.
            self._group = None

    def refuse_unfinished(self) -> None:
        """Refuse to go on with gradients that differ between processes."""
        if not self._arrived:
            return
        missing = [one.name for one in self._entries if one.parameter.requires_grad and one.index not in self._arrived]
        self._arrived.clear()
        raise RefusedError(
            f"{missing[0]} had no gradient in the last backward, so nothing was reduced: every process must use every "
            "parameter under DistributedDataParallel, or freeze it"
        )

    def hand_back(self) -> None:
        """Let DDP reduce by itself again."""
        # It was told of forwards whose gradients it never saw. Without this it would reduce in the middle of no_sync().
        for ddp in self._around:
            ddp.reducer._reset_state()  # noqa: SLF001  no public name gives it
        self._around.clear()

    def _reduce(self, trained: list[ParameterEntry]) -> None:
        self._gradients.wait_all(trained)
        # As DDP does: each divides its own, then all are added. The sum of two does not depend on their order; that of
        # more processes may, in the last bit, since it follows the place in a bucket.
        share = 1 / dist.get_world_size(self._group)
        for bucket in _buckets([_gradient(entry) for entry in trained]):
            flat = _flatten_dense_tensors(bucket).mul_(share)  # type: ignore[no-untyped-call]
            dist.all_reduce(flat, group=self._group)
            for gradient, reduced in zip(bucket, _unflatten_dense_tensors(flat, bucket), strict=True):  # type: ignore[no-untyped-call]
                gradient.copy_(reduced)

    @staticmethod
    def _check(ddp: DistributedDataParallel) -> None:
        ways = [name for name in _OTHER_WAYS if getattr(ddp, name, None)]
        if ways or getattr(ddp, "parameters_to_ignore", None):
            what = ways[0].strip("_") if ways else "parameters to ignore"
            raise RefusedError(
                f"DistributedDataParallel with {what} reduces gradients otherwise than tencache does: leave it out"
            )
        if not _reduces_on_host(ddp.process_group):
            raise RefusedError(
                "gradients are reduced on the host, which this process group cannot: "
                "init_process_group('cpu:gloo,cuda:nccl')"
            )


def _reduces_on_host(group: Any) -> bool:
    """Return whether a process group takes tensors of the host."""
    return "cpu" in {device.type for device in group._device_types}  # noqa: SLF001  no public name gives it


def _gradient(entry: ParameterEntry) -> Tensor:
    gradient = entry.parameter.grad
    assert gradient is not None
    return gradient


def _buckets(gradients: Iterable[Tensor]) -> list[list[Tensor]]:
    """Return the gradients in groups of one type and of a size that is worth a message."""
    buckets: dict[torch.dtype, list[list[Tensor]]] = {}
    for gradient in gradients:
        of_type = buckets.setdefault(gradient.dtype, [[]])
        if of_type[-1] and sum(one.nbytes for one in of_type[-1]) + gradient.nbytes > BUCKET_BYTES:
            of_type.append([])
        of_type[-1].append(gradient)
    return [bucket for of_type in buckets.values() for bucket in of_type]
