"""One of the processes that test_sharding.py starts: python shard_ranks.py RANK PROCESSES FOLDER."""

import copy
import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from tencache_cases import SMALL, same_tensors
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import tencache
from tencache.bench.gpt import GPT, batches
from tencache.errors import PeerError, RefusedError

STEPS = 4
WAYS = {
    "plain": {},
    "clipped": {"clip": True},
    "link": {"link": "1GB/s"},
    "autocast": {"autocast": True},
    "verified": {"verify": True},
    "all parameters fit": {"budget": "100%"},
    "SGD": {"kind": torch.optim.SGD},
}


def train(rank, model, optimizer, forward, clip=None, *, autocast=False, steps=STEPS):
    """Return losses and norms of some steps."""
    seen = []
    for step in range(steps):
        tokens = batches(SMALL, 1, size=2, seed=10 * step + rank)[0]
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = forward(tokens)
        loss.backward()
        if clip is not None:
            seen.append(clip(0.5).item())
        optimizer.step()
        optimizer.zero_grad()
        seen.append(loss.item())
    return seen


def made(rank, kind=torch.optim.AdamW):
    """Return a model and its optimizer; every process begins with others, and is to end with the first one's."""
    torch.manual_seed(rank)
    model = GPT(SMALL)
    return model, kind(model.parameters(), lr=1e-2)


def in_order_of_ranks(rank, processes):
    """Return what one process comes to that adds up the gradients of all, in the order of ranks."""
    models = [made(0)[0] for _ in range(processes)]
    optimizers = [torch.optim.AdamW(model.parameters(), lr=1e-2) for model in models]
    losses = []
    for step in range(STEPS):
        for other, model in enumerate(models):
            loss = model(batches(SMALL, 1, size=2, seed=10 * step + other)[0])
            loss.backward()
            if other == rank:
                losses.append(loss.item())
        for parts in zip(*(model.parameters() for model in models), strict=True):
            total = parts[0].grad * (1 / processes)
            for part in parts[1:]:
                total += part.grad * (1 / processes)
            for part in parts:
                part.grad = total.clone()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    return losses, models[0].state_dict(), optimizers[0].state_dict()


def same_as_ddp(rank, *, clip=False, autocast=False, kind=torch.optim.AdamW, **options):
    """Return whether losses, parameters and state are those of DDP, divided and after unwrapping."""
    plain, its_optimizer = made(rank, kind)
    ddp = DistributedDataParallel(plain)
    its_clip = (lambda norm: nn.utils.clip_grad_norm_(plain.parameters(), norm)) if clip else None
    expected = train(rank, plain, its_optimizer, ddp, its_clip, autocast=autocast)
    model, optimizer = made(rank, kind)
    cached = tencache.wrap(model, optimizer, shard=True, **{"budget": "45%", **options})
    found = train(rank, model, optimizer, model, cached.clip_grad_norm_ if clip else None, autocast=autocast)
    held = sum(one.nbytes for state in optimizer.state.values() for one in state.values() if torch.is_tensor(one))
    states = [copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict()["state"])]
    total = sum(one.nbytes for state in states[1].values() for one in state.values() if torch.is_tensor(one))
    cached.unwrap()
    states += [model.state_dict(), optimizer.state_dict()["state"]]
    right = [plain.state_dict(), its_optimizer.state_dict()["state"]] * 2
    return {
        "losses": found == expected,
        "states": [_same(one, other) for one, other in zip(states, right, strict=True)],
        "share": held / total if total else 0.5,
    }


def _same(one, other):
    if one and isinstance(next(iter(one.values())), dict):
        return one.keys() == other.keys() and all(same_tensors(one[key], other[key]) for key in one)
    return same_tensors(one, other)


def refusals(rank):
    """Return the errors of what cannot be kept, in a model that trains on as if nothing had been tried."""
    model, optimizer = made(rank)
    before = copy.deepcopy(model.state_dict())
    held = model.head.weight.detach()
    found = {}
    try:
        tencache.wrap(model, optimizer, shard=True, budget="45%")
    except RefusedError as error:
        found["held"] = str(error)
    del held
    cached = tencache.wrap(model, optimizer, shard=True, budget="45%")
    weight = model.head.weight
    tried = {
        "write": lambda: weight.mul_(0.5),
        "assign": lambda: setattr(weight, "data", weight.detach()),
        "load": lambda: model.load_state_dict(before),
        "view": lambda: weight.detach().mul_(0.5) is None or model(batches(SMALL, 1, size=2)[0]),
        "gradient": lambda: weight.grad,
    }
    for name, attempt in tried.items():
        try:
            with torch.no_grad():
                attempt()
            found[name] = "nothing"
        except RuntimeError as error:  # what load_state_dict() makes of a refusal
            found[name] = str(error)
    found["after"] = train(rank, model, optimizer, model)
    cached.unwrap()
    model, optimizer = made(rank)
    cached = tencache.wrap(model, optimizer, shard=True, budget="45%")
    found["untried"] = train(rank, model, optimizer, model)
    # One process has no gradients at all: both must say so, and neither must wait for ever.
    try:
        if rank == 0:
            model(batches(SMALL, 1, size=2)[0]).backward()
        optimizer.step()
    except RefusedError as error:
        found["unequal"] = str(error)
    cached.unwrap()
    return found


def one_ends(rank, folder):
    """Return what a process sees when the other ends in the middle of training."""
    model, optimizer = made(rank)
    cached = tencache.wrap(model, optimizer, shard=True, budget="45%")
    train(rank, model, optimizer, model, steps=2)
    trained = Path(folder, "trained")
    if rank == 1:
        while not trained.exists():  # the other may still wait for what was sent in the last step
            time.sleep(0.05)
        sys.stdout.flush()
        os._exit(0)
    trained.touch()
    found = {}
    for name, attempt in {"training": lambda: train(rank, model, optimizer, model), "unwrap": cached.unwrap}.items():
        try:
            attempt()
        except PeerError as error:
            found[name] = str(error)
    found["lost"] = sum(bool(parameter.isnan().all()) for parameter in model.parameters())
    return found


def main(rank, processes, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=processes)
    path = Path(folder, f"{rank}.json")
    if processes > 2:
        losses, parameters, state = in_order_of_ranks(rank, processes)
        model, optimizer = made(rank)
        cached = tencache.wrap(model, optimizer, shard=dist.group.WORLD, budget="45%")
        same = train(rank, model, optimizer, model) == losses
        cached.unwrap()
        same = same and same_tensors(model.state_dict(), parameters)
        path.write_text(json.dumps(same and _same(optimizer.state_dict()["state"], state["state"])))
        return
    found = {name: same_as_ddp(rank, **way) for name, way in WAYS.items()}
    found["refusals"] = refusals(rank)
    path.write_text(json.dumps(found))
    if (ends := one_ends(rank, folder)) is not None:
        path.write_text(json.dumps({**found, "ends": ends}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
