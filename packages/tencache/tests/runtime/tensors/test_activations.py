"""Saved tensors on the host: the unwrapped run bit by bit, with less on the device."""

import gc
from unittest.mock import patch

import pytest
import torch
from tencache_cases import LINK, same_state, same_tensors, shows_kept
from torch import nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

import tencache
from tencache.runtime.tensors import activations

WIDTH, ROWS, LAYERS = 32, 16, 8


@pytest.fixture(autouse=True)
def small():
    """Everything is worth a copy."""
    with patch.object(activations, "WORTH_BYTES", 64):
        yield


class Layer(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.linear, self.norm = nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH)
        self.kind = kind

    def forward(self, x):
        if self.kind == "checkpoint":
            return checkpoint(self.compute, x, use_reentrant=False)
        if self.kind == "hooks":
            with saved_tensors_hooks(lambda saved: saved * 2, lambda saved: saved / 2):
                return self.compute(x)
        return self.compute(x)

    def compute(self, x):
        y = nn.functional.dropout(torch.relu(self.norm(self.linear(x))), 0.1)
        # Two views of one memory, and one that is expanded.
        first, second = y.chunk(2, 1)
        return y + (first * torch.sigmoid(second)).sum(1, keepdim=True).expand(-1, WIDTH).exp().log1p()


def train(kind="plain", steps=4, batches=1, options=None, around=None, autocast=False, twice=False):
    torch.manual_seed(0)
    model = nn.Sequential(*(Layer(kind) for _ in range(LAYERS)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    cached = None if options is None else tencache.wrap(model, optimizer, **{"budget": "60%", **options})
    seen = []
    for step in range(steps):
        for batch in range(batches):
            x = torch.randn(ROWS + step % 2, WIDTH, generator=torch.Generator().manual_seed(step * 7 + batch))
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast), (around or torch.enable_grad)():
                loss = model(x).float().square().mean()
            loss.backward(retain_graph=twice)
            if twice:
                loss.backward()
            seen.append(loss.detach())
        optimizer.step()
        optimizer.zero_grad()
    stats = None if cached is None else cached.stats()
    if cached is not None:
        cached.unwrap()
    return (seen, model, optimizer), stats


def assert_same(limit, link=None, **how):
    (seen, model, optimizer), _ = train(**how)
    (seen_wrapped, wrapped, wrapped_optimizer), stats = train(**how, options={"activations": limit, "link": link})
    assert same_tensors(seen_wrapped, seen)
    assert same_tensors(wrapped.state_dict(), model.state_dict())
    assert same_state(wrapped_optimizer, optimizer)
    return stats


WAYS = {
    "plain": {},
    "accumulated": {"batches": 2},
    "autocast": {"autocast": True},
    "checkpoint": {"kind": "checkpoint"},
    "hooks inside": {"kind": "hooks"},
    "hooks around": {
        "around": lambda: saved_tensors_hooks(lambda saved: saved.bfloat16(), lambda saved: saved.float())
    },
    "save_on_cpu": {"around": save_on_cpu},
    "backward twice": {"twice": True},
}


@shows_kept("saved tensors that wait on the host (`activations=`), beside checkpointing and hooks on saved tensors")
@pytest.mark.parametrize("link", [None, LINK])
@pytest.mark.parametrize("limit", [1, 12_000, 40_000])
@pytest.mark.parametrize("way", WAYS)
def test_a_run_with_saved_tensors_on_the_host_is_the_unwrapped_one(way, limit, link):
    assert_same(limit, link, **WAYS[way])


def test_less_is_on_the_device():
    everything = assert_same(10**9)
    some = assert_same(40_000)
    assert everything.activation_bytes == 0
    assert everything.activation_peak_bytes > 100_000
    assert some.activation_bytes > 0
    # What a layer is still computing with is on the device, too.
    assert some.activation_peak_bytes < 60_000
    assert some.up_floor_bytes <= some.up_bytes
    assert some.down_floor_bytes <= some.down_bytes
    assert "on the device at most" in str(some)


def _wrapped(limit=1):
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Sigmoid()) for _ in range(4)))
    return model, tencache.wrap(model, budget="100%", activations=limit)


def test_what_was_written_to_after_it_was_saved_is_found_as_torch_finds_it():
    model, _ = _wrapped()
    kept = []
    model[0].register_forward_hook(lambda _m, _a, out: kept.append(out))
    loss = model(torch.ones(ROWS, WIDTH)).sum()
    kept[0].add_(1)
    kept.clear()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_what_user_code_holds_does_not_go_since_it_may_be_written_to_unseen():
    """torch does not see a write through `.data`, and goes on with what was written."""
    slopes = []
    for wrapped in (False, True):
        torch.manual_seed(0)
        model = nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Sigmoid()) for _ in range(4)))
        if wrapped:
            tencache.wrap(model, budget="100%", activations=1)
        kept = []
        model[0].register_forward_hook(lambda _m, _a, out, kept=kept: kept.append(out))
        loss = model(torch.ones(ROWS, WIDTH)).sum()
        kept[0].data.mul_(0.5)
        loss.backward()
        slopes.append([parameter.grad.clone() for parameter in model.parameters()])
    assert same_tensors(slopes[1], slopes[0])


def test_a_graph_from_before_unwrap_has_what_it_saved():
    model, cached = _wrapped()
    loss = model(torch.ones(ROWS, WIDTH)).sum()
    cached.unwrap()
    loss.backward()
    found = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    model(torch.ones(ROWS, WIDTH)).sum().backward()
    assert same_tensors(found, [parameter.grad for parameter in model.parameters()])


def test_a_graph_that_is_thrown_away_gives_its_memory_back():
    model, cached = _wrapped()
    for _ in range(20):
        model(torch.ones(ROWS, WIDTH))
    gc.collect()
    cached.link.drain()
    assert cached.stats().host_pinned_bytes < 20 * 4 * ROWS * WIDTH * 4
    assert cached._activations._on_device_bytes == 0


@pytest.mark.parametrize("amount", ["50%", 0, "many"])
def test_an_amount_that_is_none_is_a_mistake(amount):
    with pytest.raises(ValueError, match=r"amount of bytes|share"):
        tencache.wrap(nn.Linear(2, 2), budget="100%", activations=amount)
