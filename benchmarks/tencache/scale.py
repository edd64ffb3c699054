"""Models too large to run here, replayed from their shapes: python benchmarks/tencache/scale.py."""

import time

from tencache.plan.policy_costs import cost_of, pinned_bytes
from tencache.plan.transformer_shapes import PRESETS, Setting, make_trace
from tencache.plan.virtual_clock import Bandwidths, StepCost
from tencache.progress_bar import progress

GIB = 2**30
LINKS = {"PCIe 4": 25e9, "PCIe 5": 50e9}
MODELS = {"opt-6.7b": 4 * GIB, "opt-13b": 8 * GIB, "llama-70b": 24 * GIB}
TOKENS = (512, 4096)
NVME = 6e9
STAGING = 8 * GIB
# Each contender: its policy, when its updates are computed, and how much of its state is in the file if half of it is.
CONTENDERS = {
    "planned, late step": ("ahead", "late", 1 / 2),
    "planned, within": ("ahead", "within", 1 / 2),
    "ZeRO-Infinity-like": ("zero3", "after", 1 / 2),
    "the same, late step": ("zero3", "late", 1 / 2),
    "buckets of half": ("bucket", "after", 1 / 2),
    "LRU": ("lru", "after", 1 / 2),
}
# In the same memory: 2 bytes of parameters, 2 of gradients and half of 12 of state make 10 for each parameter. If the
# 2 are cast from the 4-byte masters on the way up and not kept, 6 of 10 hold more state: 4 of 12 are left to file.
FILING_LESS = {"within, filing less": ("ahead", "within", 1 / 3)}
# Of the host's memory, for second copies of what is updated within backward; with a file, what the runtime takes then.
SECOND_SHARE = 1 / 10
SECOND_SHARE_WITH_FILE = 1 / 16
PIECE_BYTES = 2 * 2**20


def one(model: str, tokens: int, link: float, policy: str, updates: str, filed: float) -> tuple[StepCost, float]:
    """One contender's step, and the pinned memory that it needs, with second copies."""
    trace = make_trace(PRESETS[model], Setting(tokens=tokens, context=min(tokens, 2048), state_in_file=filed))
    share = SECOND_SHARE_WITH_FILE if filed else SECOND_SHARE
    second = int(share * (trace.grad_bytes + sum(update.second_bytes for update in trace.updates)))
    speeds = Bandwidths(
        link,
        link,
        NVME,
        NVME,
        staging_bytes=STAGING,
        second_bytes=second,
        piece_bytes=PIECE_BYTES,
        updates=updates,
    )
    memory = pinned_bytes(trace, rounded=policy != "ahead") + (second if updates == "within" else 0)
    return cost_of(policy, trace, MODELS[model], speeds), memory / GIB


def scale_table() -> str:
    began = time.perf_counter()
    lines = [
        "## Scale, without running",
        "| model, budget | tokens | link | state | policy | step s | to ZeRO | of bound | hit | ready | device | GiB |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    cases = [
        (model, tokens, link, state)
        for model in MODELS
        for tokens in TOKENS
        for link, state in (("PCIe 4", False), ("PCIe 5", False), ("PCIe 4", True))
        if not state or tokens == TOKENS[-1]
    ]
    for model, tokens, link, filed in progress(cases, "replaying"):
        rows = {
            name: one(model, tokens, LINKS[link], policy, updates, share if filed else 0.0)
            for name, (policy, updates, share) in (CONTENDERS | (FILING_LESS if filed else {})).items()
        }
        rival_s = rows["ZeRO-Infinity-like"][0].step_s
        where = "NVMe" if filed else "memory"
        for name, (cost, memory) in rows.items():
            used = cost.peak_bytes / cost.budget_bytes
            lines.append(
                f"| {model}, {MODELS[model] // GIB} GiB | {tokens} | {link} | {where} | {name} | {cost.step_s:.2f} | "
                f"{rival_s / cost.step_s:.2f} | {cost.of_bound:.0%} | {cost.hit_rate:.0%} | {cost.ready_rate:.0%} | "
                f"{used:.0%} | {memory:.0f} |"
            )
    lines += ["", f"Replayed in {time.perf_counter() - began:.0f} s."]
    return "\n".join(lines)


if __name__ == "__main__":
    print(scale_table())
