"""What else trains on two processes, on this machine's CPU: python benchmarks/tencache/neighbours.py [--rounds 2].

Each way trains the same GPT with the same batches, two processes of one thread each. Memory is what a process
has beyond what it had before the model was made, at most and between steps.
"""

import argparse
import ctypes
import gc
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import tencache
from tencache.bench.gpt import GPT, GPTConfig, batches
from tencache.progress_bar import progress

CONFIG = GPTConfig(vocabulary=8192, context=64, width=512, heads=8, layers=8)
STEPS, WARM = 7, 3
MIB = 2**20


def ddp(model, _):
    return DistributedDataParallel(model), None


def wrapped(model, optimizer):
    tencache.wrap(model, optimizer, budget="35%")
    return DistributedDataParallel(model), None


def sharded(model, optimizer):
    tencache.wrap(model, optimizer, budget="35%", shard=True)
    return model, None


def fsdp(model, _):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard

    mesh = init_device_mesh("cpu", (2,))
    for part in (*model.blocks, model):
        fully_shard(part, mesh=mesh, offload_policy=CPUOffloadPolicy(pin_memory=False))
    return model, None


def zero3(model, optimizer):
    import deepspeed

    offload = {"device": "cpu"}
    config = {
        "train_micro_batch_size_per_gpu": 2,
        "zero_optimization": {"stage": 3, "offload_param": offload, "offload_optimizer": offload},
        "zero_force_ds_cpu_optimizer": False,
    }
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    return engine, engine


WAYS = {
    "DDP": ddp,
    "tencache in DDP": wrapped,
    "tencache, shard=True": sharded,
    "FSDP2, CPU offload": fsdp,
    "DeepSpeed ZeRO-3, CPU offload": zero3,
}


def train(name: str, rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    if WAYS[name] is not zero3:
        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    torch.manual_seed(0)
    before, held_before = peak_bytes(), held_bytes()
    model = GPT(CONFIG)
    # FSDP2 replaces the parameters, so its optimizer comes after it.
    sharded = fsdp(model, None)[0] if WAYS[name] is fsdp else None
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    called, engine = (sharded, None) if sharded is not None else WAYS[name](model, optimizer)
    seconds, losses = [], []
    for step in range(STEPS):
        tokens = batches(CONFIG, 1, seed=10 * step + rank)[0]
        began = time.perf_counter()
        loss = called(tokens)
        (engine or loss).backward(*([loss] if engine else []))
        (engine or optimizer).step()
        if engine is None:
            optimizer.zero_grad()
        seconds.append(time.perf_counter() - began)
        losses.append(loss.item())
    found = {"step_s": statistics.median(seconds[WARM:]), "bytes": peak_bytes() - before, "losses": losses}
    del loss
    found["held"] = held_bytes() - held_before
    (folder / f"{rank}.json").write_text(json.dumps(found))


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def held_bytes() -> int:
    """Return what the process has now, after it has given back what it does not use."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def measure(name: str) -> list[dict]:
    with tempfile.TemporaryDirectory() as folder:
        ranks = [
            subprocess.Popen([sys.executable, __file__, name, str(rank), folder], env=env(rank)) for rank in (0, 1)
        ]
        if sum(rank.wait() != 0 for rank in ranks):
            raise SystemExit(f"{name} failed")
        return [json.loads(Path(folder, f"{rank}.json").read_text()) for rank in (0, 1)]


def env(rank: int) -> dict[str, str]:
    own = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29517}
    return {**os.environ, **{name: str(value) for name, value in own.items()}, "OMP_NUM_THREADS": "1"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2, help="how often each way runs, in turns")
    options = parser.parse_args()
    names = [name for name in WAYS if WAYS[name] is not zero3 or importlib.util.find_spec("deepspeed")]
    turns = [(turn, name) for turn in range(options.rounds) for name in names]
    found: dict[str, list[list[dict]]] = {name: [] for name in names}
    for _, name in progress(turns, "training"):
        found[name].append(measure(name))
    size = sum(parameter.nbytes for parameter in GPT(CONFIG).parameters()) / MIB
    print(f"{size:.0f} MiB of parameters, two processes, {options.rounds} rounds in turns, best of the medians\n")
    print("| way | step s | step / DDP | MiB at most | MiB between steps | losses |")
    print("| --- | --- | --- | --- | --- | --- |")
    best = {name: min(run[0]["step_s"] for run in runs) for name, runs in found.items()}
    for name, runs in found.items():
        same = "those of DDP" if runs[0][0]["losses"] == found["DDP"][0][0]["losses"] else "other bits"
        most, held = (max(one[key] for run in runs for one in run) / MIB for key in ("bytes", "held"))
        print(f"| {name} | {best[name]:.2f} | {best[name] / best['DDP']:.2f} | {most:.0f} | {held:.0f} | {same} |")


if __name__ == "__main__":
    if len(sys.argv) == 4:
        train(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
    else:
        main()
