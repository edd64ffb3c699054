"""What being wrapped costs in processor time: python benchmarks/tencache/overhead.py [--rounds 20].

A small GPT-2 (11.5 MB) is trained unwrapped and wrapped in one process, in turns, and the processor time of all threads
is compared. The simulated link has no limit, so a copy is one in memory, which the processor pays for; a GPU's copy
engine does it beside. So the time that such copies take by themselves stands in a column of its own.
"""

import argparse
import os
import statistics
import time

import torch
from torch import nn

import tencache
from tencache.progress_bar import progress

os.environ["HF_HUB_OFFLINE"] = "1"
STEPS, WARM = 4, 5
CONFIG = {"vocab_size": 1024, "n_positions": 128, "n_embd": 192, "n_layer": 6, "n_head": 6}


def make() -> tuple[nn.Module, torch.optim.Optimizer]:
    from transformers import GPT2Config, GPT2LMHeadModel, logging

    logging.set_verbosity_error()
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(**CONFIG, bos_token_id=0, eos_token_id=1))
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, tokens: torch.Tensor) -> float:
    began_s = time.process_time()
    for _ in range(STEPS):
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return (time.process_time() - began_s) / STEPS


def copy_s(size_bytes: float) -> float:
    """Return the processor time of copying so many bytes, in pieces of the size of a layer's weight."""
    piece = 2**18
    source, target = (torch.zeros(max(int(size_bytes), piece), dtype=torch.uint8) for _ in range(2))
    began_s = time.process_time()
    for _ in range(STEPS):
        for offset in range(0, int(size_bytes) - piece + 1, piece):
            target[offset : offset + piece].copy_(source[offset : offset + piece])
    return (time.process_time() - began_s) / STEPS


def measure(length: int, batch: int, budgets: list[str], rounds: int) -> list[str]:
    arms = {name: make() for name in ["unwrapped", *budgets]}
    cached = {name: tencache.wrap(*arms[name], budget=name) for name in budgets}
    tokens = torch.randint(0, CONFIG["vocab_size"], (batch, length))
    seconds: dict[str, list[float]] = {name: [] for name in arms}
    copied: dict[str, list[float]] = {name: [] for name in budgets}
    moved = {}
    for turn in progress(range(rounds + WARM), f"{batch * length} tokens"):
        if turn == WARM:
            moved = {name: one.stats() for name, one in cached.items()}
        for name, (model, optimizer) in arms.items():
            seconds[name].append(train(model, optimizer, tokens))
        for name, one in cached.items():
            if turn > WARM:
                now, then = one.stats(), moved[name]
                size_bytes = now.up_bytes + now.down_bytes - then.up_bytes - then.down_bytes
                copied[name].append(copy_s(size_bytes / STEPS / (turn - WARM)))
    rows = []
    plain = seconds["unwrapped"][WARM:]
    for name in budgets:
        ratios = sorted(wrapped / alone for wrapped, alone in zip(seconds[name][WARM:], plain, strict=True))
        low, high = ratios[len(ratios) // 4], ratios[-len(ratios) // 4]
        share = statistics.median(copied[name]) / statistics.median(plain) if copied[name] else 0.0
        rows.append(
            f"| {batch * length} | {name} | {statistics.median(plain) * 1e3:.1f} | {statistics.median(ratios):.2f} "
            f"({low:.2f} to {high:.2f}) | {share:.2f} |"
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="turns that are counted")
    parser.add_argument("--budgets", nargs="+", default=["35%", "100%", "450%"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = [row for batch in (1, 4, 8) for row in measure(64, batch, options.budgets, options.rounds)]
    print(f"median of {options.rounds} turns, with the middle half of them\n")
    print("| tokens | budget | unwrapped, ms | wrapped / unwrapped | of that copies alone |")
    print("| --- | --- | --- | --- | --- |")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
