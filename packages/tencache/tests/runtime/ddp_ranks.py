"""One of two processes that train under DistributedDataParallel, with and without tencache: run by test_ddp.py."""

import copy
import json
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.distributed as dist
from tencache_cases import SMALL, same_tensors
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel

import tencache
from tencache.bench.gpt import GPT, GPTConfig, batches
from tencache.errors import RefusedError
from tencache.runtime.optimizer import known_optimizers
from tencache.runtime.optimizer.stand_in import StandIn

STEPS = 5
THREE = replace(SMALL, layers=3)
ORDERS = ("wrap, then DDP", "DDP, then wrap it", "DDP, then wrap its module")


@dataclass(frozen=True)
class Way:
    """What the model is, and what the loop does besides."""

    config: GPTConfig = THREE
    micro_batches: int = 1
    no_sync: bool = False
    clip: bool = False
    autocast: bool = False
    dtype: torch.dtype = torch.float32
    budget: str = "50%"


WAYS = {
    "plain": Way(),
    "all fits": Way(budget="500%"),
    "tied": Way(replace(THREE, tied=True)),
    "accumulation": Way(micro_batches=3),
    "accumulation without communication": Way(micro_batches=3, no_sync=True),
    "clipping": Way(clip=True),
    "checkpointing": Way(replace(THREE, recompute="nonreentrant")),
    "reentrant checkpointing": Way(replace(THREE, recompute="reentrant")),
    "autocast": Way(autocast=True),
    "bf16": Way(dtype=torch.bfloat16),
}


def slow_down(rank: int) -> None:
    """Let every update take its time, in the second process more than in the first."""
    known_optimizers.WORTH_BYTES = 0
    step = StandIn.step

    def slowly(self, *arguments):
        time.sleep(0.005 * (1 + rank))
        step(self, *arguments)

    StandIn.step = slowly


def run(way: Way, order: str | None, rank: int, late: list[int]):
    """Return losses, parameters and optimizer state after training, and after unwrapping and training on."""
    # Another seed for each rank: DDP gives every rank the first one's parameters.
    torch.manual_seed(rank)
    model = GPT(way.config).to(way.dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    options = {"budget": way.budget, "link": "1GB/s"}
    cached = tencache.wrap(model, optimizer, **options) if order == ORDERS[0] else None
    parallel = DistributedDataParallel(model)
    if order in ORDERS[1:]:
        cached = tencache.wrap(parallel if order == ORDERS[1] else model, optimizer, **options)
    seen = []
    for step in range(STEPS):
        if step == STEPS - 1 and cached is not None:
            late.append(cached.stats().late_updates)
            cached.unwrap()
        tokens = batches(way.config, 1, size=2 * way.micro_batches, seed=10 * step + rank)[0]
        parts = tokens.chunk(way.micro_batches)
        for index, part in enumerate(parts):
            with parallel.no_sync() if way.no_sync and index < len(parts) - 1 else nullcontext():
                with torch.autocast("cpu", torch.bfloat16) if way.autocast else nullcontext():
                    loss = parallel(part)
                loss.backward()
            seen.append(loss.detach())
        seen += [parameter.grad.clone() for parameter in model.parameters()]
        if way.clip:
            seen.append(nn.utils.clip_grad_norm_(model.parameters(), 0.5))
        optimizer.step()
        optimizer.zero_grad()
    return seen, copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())


class Heads(nn.Module):
    """Two outputs, each of a layer of its own."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.first(x).sum(), self.second(x).sum()


def twice(order: str | None, rank: int):
    """Return the gradients of a graph that is gone through twice: only the first time is reduced."""
    torch.manual_seed(0)
    model = Heads()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if order is not None:
        tencache.wrap(model, optimizer, budget="100%")
    parallel = DistributedDataParallel(model)
    loss = sum(parallel(torch.full((2, 4), rank + 1.0)))
    loss.backward(retain_graph=True)
    loss.backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


def refused(use, hook=None, **options):
    """Return the sentence with which a forward, a backward or a step is refused."""
    model = Heads()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    cached = tencache.wrap(model, optimizer, budget="100%")
    parallel = DistributedDataParallel(model, **options)
    if hook is not None:
        parallel.register_comm_hook(None, hook)
    try:
        use(*parallel(torch.ones(2, 4)))
        optimizer.step()
    except RefusedError as error:
        return str(error)
    finally:
        cached.unwrap()
    return "not refused"


def refused_in_closure():
    """Return the sentence with which a step is refused whose closure leaves gradients that differ."""
    model = Heads()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    cached = tencache.wrap(model, optimizer, budget="100%")
    parallel = DistributedDataParallel(model)
    before = copy.deepcopy(model.state_dict())

    def closure():
        loss, _ = parallel(torch.ones(2, 4))
        loss.backward()
        return loss

    try:
        optimizer.step(closure)
    except RefusedError as error:
        return str(error) if same_tensors(model.state_dict(), before) else "refused after an update"
    finally:
        cached.unwrap()
    return "not refused"


def backward_twice(first, _):
    first.backward(retain_graph=True)
    first.backward()


def findings(rank: int):
    """Return what each way and order led to."""
    found = {}
    late: list[int] = []
    for name, way in WAYS.items():
        expected = run(way, None, rank, late)
        for order in ORDERS:
            found[f"{name}; {order}"] = same_tensors(run(way, order, rank, late), expected)
    found["late updates"] = late
    found["twice"] = same_tensors(twice(ORDERS[0], rank), twice(None, rank))
    for option in ("find_unused_parameters", "static_graph", "gradient_as_bucket_view"):
        found[option] = refused(lambda *losses: sum(losses).backward(), **{option: True})
    found["comm_hooks"] = refused(lambda *losses: sum(losses).backward(), fp16_compress_hook)
    found["unused"] = refused(lambda first, _: first.backward())
    found["unused in a closure"] = refused_in_closure()
    found["two gradients"] = refused(backward_twice)
    return found


def main(rank: int, folder: Path) -> None:
    """Write the findings of one process."""
    torch.set_num_threads(1)
    slow_down(rank)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    (folder / f"{rank}.json").write_text(json.dumps(findings(rank)))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
