"""`wrap()`: what it is given is checked before anything is changed."""

from pathlib import Path
from typing import Any

from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from tencache.errors import RefusedError
from tencache.plan.rival_policies import POLICIES
from tencache.quantity import parse_bandwidth, parse_bytes
from tencache.runtime.attach import Cached
from tencache.runtime.hooks.refusals import check_model, check_optimizer, refuse_hooks
from tencache.runtime.memory.accelerator import find_device
from tencache.runtime.optimizer.known_optimizers import worth_a_thread
from tencache.runtime.sharding import check_sharding


def wrap(
    model: nn.Module,
    optimizer: Optimizer | None = None,
    *,
    budget: int | str,
    device: str = "sim",
    link: float | str | None = None,
    host: int | str | None = None,
    nvme: str | Path | None = None,
    verify: bool = False,
    policy: str = "ahead",
    overlap: bool = True,
    shard: Any = None,
    activations: int | str | None = None,
) -> Cached:
    """Let a model on the CPU train on a device that is too small for it; the training loop stays as it was.

    `device` is "sim", where `link` is the simulated bandwidth ("2GB/s"), or a CUDA device. `budget` is the device's
    memory for parameters, `host` that of the host for parameters, gradients and optimizer state, `nvme` a folder for
    what is beyond it. The first step is the profile, and it counts. If the budget holds gradients and optimizer state
    too, everything stays on the device after that step, and nothing moves any more. With `overlap`, `step()` returns
    before the parameters are updated, and whoever looks at one first waits for it. With `shard`, a process group or
    True for the default one, each process holds a share of the parameters, gradients and optimizer state.
    `activations` is the device's memory for what autograd saves for backward: what is beyond it waits on the host.
    """
    if policy not in POLICIES:
        raise ValueError(f"policy={policy!r}: choose one of {', '.join(POLICIES)}")
    if nvme is not None and host is None:
        raise ValueError(
            "nvme= without host= would never be used: say with host= how much memory to use before the file"
        )
    if shard is not None:
        if host is not None or isinstance(model, DistributedDataParallel):
            raise RefusedError("shard= divides the model and averages gradients by itself: leave out host=, nvme=, DDP")
        check_sharding(shard, model, optimizer)
        refuse_hooks(model)
    # What is around the model only says with whom to reduce gradients, and says it at each forward.
    inner = model.module if isinstance(model, DistributedDataParallel) else model
    check_model(inner)
    if optimizer is not None:
        check_optimizer(optimizer, inner)
    return Cached(
        inner,
        optimizer,
        budget=budget,
        device=find_device(device),
        bytes_per_s=None if link is None else parse_bandwidth(link),
        host=host,
        nvme=nvme,
        verify=verify,
        policy=policy,
        overlap=overlap and shard is None and optimizer is not None and worth_a_thread(optimizer),
        shard=shard,
        activations=None if activations is None else parse_bytes(activations),
    )
