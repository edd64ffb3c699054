"""Every bar of tencache in one command: python benchmarks/tencache/bench.py [--quick] [--nvme FOLDER] [--out FILE]."""

import argparse
import importlib.util
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from late_step import kept_table, late_table
from scale import scale_table

from tencache.bench.policy_bench import BenchSetting, Loaded, TimedTraining, bench_table, compare_policies, interleave
from tencache.runtime.wrapping import wrap

LINKS = ("0.5GB/s", "1GB/s", "2GB/s")
FLOOR_LIMIT = 1.05
AUTOCAST_LIMITS = {"0.5GB/s": 1.6, "1GB/s": 1.5, "2GB/s": 1.3}
NAMES = {
    "lru": "LRU",
    "zero3": "ZeRO-3 by DeepSpeed's defaults",
    "zero3, late step": "the same with a late step",
    "bucket": "buckets of half the budget",
}
ZERO3_BARS = {"0.5GB/s": 1.2, "1GB/s": 1.15, "2GB/s": 1.15}
# Budgets as shares of the parameters: these alone, or with gradients, two moments and their alignment.
FITS = {"parameters": "100%", "parameters, gradients and optimizer state": "410%"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small model and one round, to try the benchmark itself")
    parser.add_argument("--nvme", default=tempfile.gettempdir(), help="a folder on the disk to measure")
    parser.add_argument("--tokens", type=int, default=64, help="tokens in a step")
    parser.add_argument("--rounds", type=int, default=5, help="rounds to choose")
    parser.add_argument("--only", choices=("policies", "autocast"), help="leave the other tables out")
    parser.add_argument(
        "--links", nargs="+", choices=LINKS, default=LINKS, help="of those two tables, only these links"
    )
    parser.add_argument("--speeds", type=int, default=2, choices=(1, 2), help="speeds of compute: 2 has double tokens")
    parser.add_argument("--out", type=Path, help="write the tables here too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rounds = 1 if options.quick else options.rounds
    bench = BenchSetting(tokens=options.tokens, rounds=rounds, small=options.quick)
    measures = (
        machine,
        lambda: policies(bench, options.links, options.speeds),
        lambda: autocast(bench, options.links),
        lambda: fits(bench),
        lambda: optimizer_state(bench, options.nvme),
        lambda: tokens_sweep(bench),
        late_table,
        kept_table,
        scale_table,
        machine,
    )
    if options.only is not None:
        only = measures[1 + ("policies", "autocast").index(options.only)]
        measures = (machine, only, machine)
    parts = []
    for measure in measures:
        parts.append(measure())
        print(parts[-1], end="\n\n", flush=True)
    if options.out is not None:
        options.out.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def machine() -> str:
    load = f"load average {os.getloadavg()[0]:.1f}"
    return f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}, one compute thread; {load}"


def verdict(value: float, limit: float, *, at_least: bool) -> str:
    met = value >= limit if at_least else value <= limit
    return f"{'met' if met else 'MISSED'} ({'>=' if at_least else '<='} {limit:g})"


def policies(bench: BenchSetting, links: Sequence[str], speeds: int) -> str:
    """Every policy over every link, at one or two speeds of compute."""
    sizes = (bench.tokens, 2 * bench.tokens)[:speeds]
    parts = [policy_tables(replace(bench, tokens=tokens), links) for tokens in sizes]
    return "\n\n".join(["## Policies in the same engine", *parts])


def policy_tables(bench: BenchSetting, links: Sequence[str]) -> str:
    rows = compare_policies(bench, links)
    of = {(row.link, row.policy): row for row in rows}
    lines = [f"### {bench.tokens} tokens a step", bench_table(rows), ""]
    lines += ["| bar | value (lowest-highest) | | on the clock |", "| --- | --- | --- | --- |"]
    for link in links:
        against = ZERO3_BARS[link]
        for policy, limit in {"zero3": against, "zero3, late step": against, "lru": 1.3, "bucket": 1.15}.items():
            value, bar = of[link, policy].speed_up, verdict(of[link, policy].speed_up.middle, limit, at_least=True)
            clock = of[link, policy].clock_s / of[link, "ahead"].clock_s
            lines.append(f"| faster than {NAMES[policy]} at {link} | {value} | {bar} | {clock:.2f} |")
    for link in links:
        row = of[link, "ahead"]
        bar = verdict(row.of_bound.middle, 0.85, at_least=True)
        lines.append(f"| of the bound at {link} | {row.of_bound} | {bar} | |")
    moved = max(row.up_bytes / row.up_floor_bytes for row in rows if row.policy == "ahead")
    lines.append(f"| bytes against their floor | {moved:.3f} | {verdict(moved, FLOOR_LIMIT, at_least=False)} | |")
    return "\n".join(lines)


def autocast(bench: BenchSetting, links: Sequence[str]) -> str:
    """Half the bytes under bf16 autocast, against a ZeRO-3 that moves fp32."""
    rows = compare_policies(replace(bench, autocast=True), links, ("ahead", "zero3"))
    of = {(row.link, row.policy): row for row in rows}
    lines = ["## Under bf16 autocast, against ZeRO-3 that moves fp32 bytes", bench_table(rows), ""]
    lines += ["| bar | value | | on the clock | | up MB | its up MB |", "| --- | --- | --- | --- | --- | --- | --- |"]
    for link in links:
        limit = AUTOCAST_LIMITS[link]
        ahead, rival = of[link, "ahead"], of[link, "zero3"]
        clock = rival.clock_s / ahead.clock_s
        bars = verdict(rival.speed_up.middle, limit, at_least=True), verdict(clock, limit, at_least=True)
        moved = f"{ahead.up_bytes / 1e6:.0f} | {rival.up_bytes / 1e6:.0f}"
        lines.append(
            f"| faster than {NAMES['zero3']} at {link} | {rival.speed_up} | {bars[0]} | {clock:.2f} | {bars[1]} | "
            f"{moved} |"
        )
    return "\n".join(lines)


def wrapped(bench: BenchSetting, name: str, **options: object) -> TimedTraining:
    model, optimizer = bench.make()
    return TimedTraining(name, model, optimizer, wrap(model, optimizer, **options))


def fits(bench: BenchSetting) -> str:
    """What wrapping costs when everything fits; and when only parameters do, and the optimizer is the host's."""
    plain = TimedTraining("unwrapped", *bench.make())
    runners = {
        (what, link): wrapped(bench, what, budget=budget, link=link)
        for what, budget in FITS.items()
        for link in ("2GB/s", "4GB/s")
    }
    interleave(bench, [plain, *runners.values()], "fits")
    lines = [
        "## When everything fits",
        "| the budget holds | link | step s | unwrapped s | overhead | of its CPU time | |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (what, link), runner in runners.items():
        value, cpu = runner.median_s / plain.median_s - 1, runner.median_cpu_s / plain.median_cpu_s - 1
        bar = verdict(value, 0.03, at_least=False)
        times = f"{runner.median_s:.3f} | {plain.median_s:.3f}"
        lines.append(f"| {what} | {link} | {times} | {value:.1%} | {cpu:.1%} | {bar} |")
    stats = runners["parameters", "2GB/s"].cached.stats()
    pinned = stats.host_pinned_bytes / stats.host_asked_bytes
    lines += ["", f"Pinned bytes / asked: {pinned:.3f}, {verdict(pinned, FLOOR_LIMIT, at_least=False)}."]
    for runner in runners.values():
        runner.cached.unwrap()
    return "\n".join(lines)


def optimizer_state(bench: BenchSetting, folder: str) -> str:
    """Half of the optimizer state in the file, against all of it in memory."""
    total = sum(parameter.nbytes for parameter in bench.make()[0].parameters())
    # Parameters and gradients, half of AdamW's two moments, and the staging memory that comes off the top.
    host = int((2 * total + total) * 8 / 7)
    runners = [
        wrapped(bench, "in memory", budget=bench.budget, link="2GB/s"),
        wrapped(bench, "half in the file", budget=bench.budget, link="2GB/s", host=host, nvme=folder),
    ]
    interleave(bench, runners, "optimizer state")
    ratio = runners[1].median_s / runners[0].median_s
    lines = [
        "## Optimizer state in the file",
        "| state | step s | optimizer s | state in memory | in the file |",
        "| --- | --- | --- | --- | --- |",
    ]
    for runner in runners:
        stats = runner.cached.stats()
        kept, filed = stats.state_in_memory_bytes or 2 * total, stats.state_in_file_bytes
        alone = stats.optimizer_s / stats.steps
        lines.append(
            f"| {runner.name} | {runner.median_s:.3f} | {alone:.3f} | {kept / 1e6:.0f} MB | {filed / 1e6:.0f} MB |"
        )
        runner.cached.unwrap()
    lines += ["", f"Step against all in memory: {ratio:.2f}, {verdict(ratio, 1.25, at_least=False)}.", deepspeed()]
    return "\n".join(lines)


def deepspeed() -> str:
    if importlib.util.find_spec("deepspeed") is None:
        return "DeepSpeed is not installed here, so its NVMe optimizer step is not beside it."
    return "DeepSpeed is installed: run its own NVMe optimizer benchmark on this folder to compare."


def tokens_sweep(bench: BenchSetting) -> str:
    """Where it helps and where it does not: more tokens a step make everything compute."""
    lines = ["## More compute a step, 1 GB/s", "| tokens | resident s | planned s | LRU s | LRU / planned |"]
    lines.append("| --- | --- | --- | --- | --- |")
    for tokens in (32, 128, 256):
        one = replace(bench, tokens=tokens, rounds=min(bench.rounds, 3))
        runners = [wrapped(one, policy, budget=one.budget, link="1GB/s", policy=policy) for policy in ("ahead", "lru")]
        plain = TimedTraining("resident", *one.make())
        interleave(one, [Loaded(plain, runners[0], 1e9), *runners], f"{tokens} tokens")
        plain.chosen = runners[0].chosen
        ahead, lru = (runner.median_s for runner in runners)
        lines.append(f"| {tokens} | {plain.median_s:.3f} | {ahead:.3f} | {lru:.3f} | {lru / ahead:.2f} |")
        for runner in runners:
            runner.cached.unwrap()
    return "\n".join(lines)


if __name__ == "__main__":
    began = time.perf_counter()
    main()
    sys.stderr.write(f"took {time.perf_counter() - began:.0f} s\n")
