"""Models, training loops and comparisons that several tests share."""

import contextlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import nn

import tencache
from tencache.bench.gpt import GPT, GPTConfig, batches

SMALL = GPTConfig(vocabulary=96, context=12, width=32, heads=4, layers=8)
LINK = "1GB/s"


@dataclass(frozen=True)
class Case:
    """One way to train: what the model is, and what the loop does besides."""

    config: GPTConfig = SMALL
    micro_batches: int = 1
    clip: float | None = None
    evaluate_every: int = 0
    lengths: tuple[int, ...] = (12,)
    autocast: bool = False
    frozen: bool = False
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.AdamW
    options: dict[str, object] = field(default_factory=lambda: {"lr": 1e-2})


class Adapted(nn.Module):
    """A frozen linear layer with a small trainable one beside it, used through views as LoRA code often does."""

    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base
        self.down = nn.Parameter(torch.randn(rank, base.in_features) / 8)
        self.up = nn.Parameter(torch.randn(base.out_features, rank) / 8)

    def forward(self, x):
        return self.base(x) + x @ self.down.T @ self.up.T


def make(case: Case):
    """The same model and optimizer every time."""
    torch.manual_seed(0)
    model = GPT(case.config)
    if case.frozen:
        model.requires_grad_(False)
        for block in model.blocks:
            block.qkv = Adapted(block.qkv, 4)
            block.up = Adapted(block.up, 4)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return model, case.optimizer(trained, **case.options)


def train(case: Case, model, optimizer, steps: int, device: str = "cpu", after=lambda _: None):
    """Train, and return every loss seen."""
    losses = []
    for step in range(steps):
        length = case.lengths[step % len(case.lengths)]
        tokens = batches(case.config, 1, size=2 * case.micro_batches, length=length, seed=step)[0].to(device)
        for part in tokens.chunk(case.micro_batches):
            with torch.autocast(device, torch.bfloat16) if case.autocast else contextlib.nullcontext():
                loss = model(part)
            (loss / case.micro_batches).backward()
            losses.append(loss.item())
        if case.clip is not None:
            losses.append(nn.utils.clip_grad_norm_(model.parameters(), case.clip).item())
        if case.evaluate_every and step % case.evaluate_every == 0:
            model.eval()
            with torch.no_grad():
                losses.append(model(tokens).item())
            model.train()
        optimizer.step()
        optimizer.zero_grad()
        after(step)
    return losses


def same_tensors(one, two) -> bool:
    """Compare tensors, and whatever holds them, bit by bit; even what is not a number is compared."""
    if isinstance(one, torch.Tensor):
        return one.shape == two.shape and one.dtype == two.dtype and _bytes(one) == _bytes(two)
    if isinstance(one, dict):
        # In the same order, too: who goes through an optimizer's states counts them.
        return list(one) == list(two) and all(same_tensors(one[key], two[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(two) and all(same_tensors(*pair) for pair in zip(one, two, strict=True))
    return one == two or (one != one and two != two)  # noqa: PLR0124  neither is a number


def _bytes(tensor) -> bytes:
    return tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def same_state(one, two) -> bool:
    """Compare two optimizers' states bit by bit."""
    return same_tensors(one.state_dict()["state"], two.state_dict()["state"])


def wrap(model, optimizer, device="sim", **options):
    link = None if device == "cuda" else options.pop("link", LINK)
    return tencache.wrap(model, optimizer, device=device, link=link, **{"budget": "35%", **options})


def half_in_file(model) -> dict[str, object]:
    """Return options by which half of the parameters, and the optimizer's state, live in the file."""
    sizes = [parameter.nbytes + 64 for parameter in model.parameters()]
    return {"host": 3 * sum(sizes) // 2 + 4 * max(sizes), "nvme": tempfile.gettempdir()}


def state_in_file(model) -> dict[str, object]:
    """Return options by which the parameters are in memory, and most of the optimizer's state in the file."""
    sizes = [parameter.nbytes + 64 for parameter in model.parameters()]
    return {"host": 5 * sum(sizes) // 2 + 4 * max(sizes), "nvme": tempfile.gettempdir()}


def with_config(**changes) -> Case:
    return Case(config=replace(SMALL, **changes))


def shows_kept(what: str):
    """Mark a test as the proof of what the page of refusals says is kept."""
    return lambda test: _marked(test, kept=what)


def shows_refused(what: str, instead: str):
    """Mark a test as the proof of what the page of refusals says is refused."""
    return lambda test: _marked(test, refused=(what, instead))


def _marked(test, **marks):
    vars(test).update(marks)
    return test
