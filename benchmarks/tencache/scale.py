"""Models too large to run here, replayed from their shapes: python benchmarks/tencache/scale.py."""

import time

from tencache.plan.policy_costs import cost_of, pinned_bytes
from tencache.plan.transformer_shapes import PRESETS, Setting, make_trace
from tencache.plan.virtual_clock import Bandwidths
from tencache.progress_bar import progress

GIB = 2**30
LINKS = {"PCIe 4": 25e9, "PCIe 5": 50e9}
MODELS = {"opt-6.7b": 4 * GIB, "opt-13b": 8 * GIB, "llama-70b": 24 * GIB}
TOKENS = (512, 4096)
NVME = 6e9
STAGING = 8 * GIB
NAMES = {"ahead": "planned", "zero3": "ZeRO-Infinity-like", "bucket": "buckets of half", "lru": "LRU"}


def scale_table() -> str:
    began = time.perf_counter()
    lines = [
        "## Scale, without running",
        "| model, budget | tokens | link | state | policy | step s | of bound | hit | ready | device | pinned GiB |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    cases = [
        (model, tokens, link, state)
        for model in MODELS
        for tokens in TOKENS
        for link, state in (("PCIe 4", 0.0), ("PCIe 5", 0.0), ("PCIe 4", 0.5))
        if not state or tokens == TOKENS[-1]
    ]
    for model, tokens, link, state in progress(cases, "replaying"):
        trace = make_trace(PRESETS[model], Setting(tokens=tokens, context=min(tokens, 2048), state_in_file=state))
        speeds = Bandwidths(LINKS[link], LINKS[link], NVME, NVME, staging_bytes=STAGING)
        where = "half on NVMe" if state else "memory"
        for policy, name in NAMES.items():
            result = cost_of(policy, trace, MODELS[model], speeds)
            memory = pinned_bytes(trace, rounded=policy != "ahead") / GIB
            used = result.peak_bytes / result.budget_bytes
            lines.append(
                f"| {model}, {MODELS[model] // GIB} GiB | {tokens} | {link} | {where} | {name} | {result.step_s:.2f} | "
                f"{result.of_bound:.0%} | {result.hit_rate:.0%} | {result.ready_rate:.0%} | {used:.0%} | {memory:.0f} |"
            )
    lines += ["", f"Replayed in {time.perf_counter() - began:.0f} s."]
    return "\n".join(lines)


if __name__ == "__main__":
    print(scale_table())
