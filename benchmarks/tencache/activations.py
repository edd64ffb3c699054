"""What it costs to let saved tensors wait on the host.

`python benchmarks/tencache/activations.py [--rounds N] [--link 2GB/s]`.

A GPT of 10.8M parameters, all of which fit the device, 1,024 tokens a step, on the simulated link. In each round every
way takes its turn; the table gives medians, with the lowest and the highest. The clock's table needs no measuring.
"""

import argparse
import statistics
import time

import torch
from markdown_table import markdown_table

import tencache
from tencache.bench.gpt import GPT, GPTConfig, batches
from tencache.plan.activation_plan import peak_saved_bytes
from tencache.plan.policy_costs import cost_of
from tencache.plan.transformer_shapes import PRESETS, Setting, make_trace
from tencache.plan.virtual_clock import Bandwidths
from tencache.quantity import show_bytes

CONFIG = GPTConfig(vocabulary=256, context=128, width=384, heads=6, layers=6)
SHARES = (1.0, 0.5, 0.25)
WARM = 4


class Way:
    """One way to train: all saved tensors on the device, or some on the host, or blocks recomputed."""

    def __init__(self, name: str, limit_bytes: int, link: str, *, recompute: bool = False) -> None:
        torch.manual_seed(0)
        self.name = name
        config = GPTConfig(**{**vars(CONFIG), "recompute": "nonreentrant"}) if recompute else CONFIG
        self.model = GPT(config)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, fused=True)
        self.cached = tencache.wrap(self.model, self.optimizer, budget="100%", link=link, activations=limit_bytes)
        self.seconds: list[float] = []
        self.losses: list[float] = []
        for step in range(WARM):
            self.step(step)
        self.seconds.clear()

    def step(self, number: int) -> None:
        """Train one step, and take its time."""
        tokens = batches(CONFIG, 1, size=8, length=128, seed=number)[0]
        began = time.perf_counter()
        loss = self.model(tokens)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.losses.append(loss.item())
        self.seconds.append(time.perf_counter() - began)


def measured(rounds: int, link: str) -> str:
    """Return the table of what was measured."""
    first = Way("all on the device", 2**40, link)
    trace = first.cached.trace
    assert trace is not None
    peak = peak_saved_bytes(trace.saves)
    ways = [first] + [Way(f"{share:.0%} on the device", round(share * peak), link) for share in SHARES[1:]]
    ways.append(Way("blocks recomputed by torch", 2**40, link, recompute=True))
    for number in range(rounds):
        for way in ways:
            way.step(WARM + number)
    rows = []
    for way in ways:
        stats = way.cached.stats()
        rows.append(
            (
                way.name,
                show_bytes(stats.activation_peak_bytes),
                show_bytes(stats.activation_bytes / stats.steps),
                show_bytes(stats.activation_again_bytes / stats.steps),
                f"{stats.activation_stall_s / stats.steps:.3f} s",
                f"{statistics.median(way.seconds):.3f} ({min(way.seconds):.3f} to {max(way.seconds):.3f})",
                "yes" if way.losses == first.losses else "no",
            )
        )
    columns = (
        "",
        "on the device at most",
        "to the host a step",
        "computed again",
        "waited a step",
        "step s",
        "same losses",
    )
    return markdown_table(f"Saved tensors, measured at {link}", columns, rows)


def on_the_clock() -> str:
    """Return the table of offloading against recomputing, with the same memory on the device."""
    rows = []
    for name, budget_gib in (("opt-6.7b", 8), ("opt-13b", 8), ("llama-70b", 24)):
        recomputed, kept = (make_trace(PRESETS[name], Setting(recompute=one)) for one in (True, False))
        room = peak_saved_bytes(recomputed.saves)
        speeds = Bandwidths(25e9, 25e9, updates="late", activation_bytes=room)
        again, away = (cost_of("ahead", trace, budget_gib * 2**30, speeds) for trace in (recomputed, kept))
        seconds = f"{again.step_s:.2f}", f"{away.step_s:.2f}"
        rows.append((f"{name}, {budget_gib} GiB", show_bytes(room), *seconds, show_bytes(away.offloaded_bytes)))
    columns = "model, budget", "memory for saved tensors", "blocks recomputed s", "offloaded s", "to the host a step"
    return markdown_table("Offloaded or recomputed, on the clock (25 GB/s, 4,096 tokens)", columns, rows)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--link", default="2GB/s", help="the simulated bandwidth of each way")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(on_the_clock())
    print()
    print(measured(options.rounds, options.link))


if __name__ == "__main__":
    main()
