"""Trains a small GPT larger than its simulated device, beside an unwrapped twin."""

from pathlib import Path

import torch
from torch.optim import AdamW

from tencache.bench.gpt import GPT, GPTConfig, batches
from tencache.plan.timeline_page import draw
from tencache.plan.virtual_clock import replay_plan
from tencache.progress_bar import progress
from tencache.quantity import show_bytes
from tencache.runtime.wrapping import wrap

CONFIG = GPTConfig(vocabulary=2048, context=64, width=256, heads=8, layers=8)
STEPS = 6
BUDGET = "35%"
LINK = "1GB/s"


def demonstrate(out: Path) -> str:
    """Train twice, compare every loss and parameter, and draw the plan's timeline."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _demonstrate(out)
    finally:
        torch.set_num_threads(threads)


def _demonstrate(out: Path) -> str:
    plain, plain_optimizer = _make()
    model, optimizer = _make()
    total_bytes = sum(parameter.nbytes for parameter in model.parameters())
    cached = wrap(model, optimizer, budget=BUDGET, link=LINK)
    lines = [
        f"a GPT of {show_bytes(total_bytes)} on a device of {show_bytes(cached.budget_bytes)}, linked at {LINK}",
        f"{'step':>4} {'unwrapped':>12} {'wrapped':>12}",
    ]
    for step, tokens in enumerate(progress(batches(CONFIG, STEPS), "training")):
        losses = _step(plain, plain_optimizer, tokens), _step(model, optimizer, tokens)
        same = "the same bits" if losses[0] == losses[1] else "DIFFERENT"
        lines.append(f"{step:>4} {losses[0]:>12.8f} {losses[1]:>12.8f}  {same}")
    stats = cached.stats()
    plan = cached.plan
    assert plan is not None
    out.mkdir(parents=True, exist_ok=True)
    page = out / "tencache-timeline.html"
    title = f"One step with {BUDGET} of the parameters on the device, over {LINK}"
    page.write_text(draw(replay_plan(plan, cached.engine.plans.speeds), title, total_bytes), encoding="utf-8")
    cached.unwrap()
    equal = all(torch.equal(one, two) for one, two in zip(plain.parameters(), model.parameters(), strict=True))
    lines += [f"parameters after {STEPS} steps: {'the same bits' if equal else 'DIFFERENT'}", str(stats)]
    return "\n".join([*lines, f"timeline {page}"])


def _make() -> tuple[GPT, AdamW]:
    torch.manual_seed(0)
    model = GPT(CONFIG)
    return model, AdamW(model.parameters(), lr=1e-3)


def _step(model: GPT, optimizer: AdamW, tokens: torch.Tensor) -> float:
    loss: torch.Tensor = model(tokens)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()
