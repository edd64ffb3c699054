"""Saved tensors that are computed again, from others that autograd saved: the unwrapped run bit by bit."""

import threading
from unittest.mock import patch

import pytest
import torch
from tencache_cases import same_state, same_tensors, shows_kept
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import tencache
from tencache import cli
from tencache.errors import CorruptedError, RefusedError
from tencache.plan import virtual_clock
from tencache.plan.activation_plan import Offload, floor_offloaded_bytes, plan_offloads
from tencache.plan.step_trace import Op, Saved, StepTrace, Unit
from tencache.runtime import attach
from tencache.runtime.tensors import activations
from tencache.runtime.tensors.recomputing import OPERATIONS

WIDTH, ROWS, LAYERS = 32, 16, 4
KINDS = {
    "GeluBackward0": lambda x: functional.gelu(x, approximate="tanh"),
    "SiluBackward0": functional.silu,
    "MishBackward0": functional.mish,
    "HardswishBackward0": functional.hardswish,
    "LeakyReluBackward0": lambda x: functional.leaky_relu(x, 0.3),
    "CeluBackward0": lambda x: functional.celu(x, 1.3),
    "SoftplusBackward0": lambda x: functional.softplus(x, beta=2.0, threshold=1.0),
    "PowBackward0": lambda x: x**3,
    "SinBackward0": torch.sin,
    "CosBackward0": torch.cos,
    "AbsBackward0": torch.abs,
    "MulBackward0": lambda x: functional.silu(x) * torch.sigmoid(x),
    "DivBackward0": lambda x: x / x.exp(),
}
# What user code holds.
HELD = []
FASTEST = virtual_clock._fastest


@pytest.fixture(autouse=True)
def everything_is_computed_again():
    """Whatever can be is computed again, whether that pays or not, and everything is worth it."""
    HELD.clear()
    with (
        patch.object(activations, "WORTH_BYTES", 64),
        patch.object(virtual_clock, "_fastest", lambda plans, _: plans[-1]),
    ):
        yield


class Layer(nn.Module):
    def __init__(self, operation, change):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.operation, self.change = operation, change

    def forward(self, x):
        made_from = self.up(x)
        made = self.operation(made_from)
        result = x + self.down(made) * 0.5
        if self.change is not None:
            self.change(made_from, made)
        return result


def train(operation, options=None, *, change=None, autocast=False, twice=False, steps=4):
    torch.manual_seed(0)
    model = nn.Sequential(*(Layer(operation, change) for _ in range(LAYERS)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    cached = None if options is None else tencache.wrap(model, optimizer, **{"budget": "90%", **options})
    seen = []
    for step in range(steps):
        x = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(step)) + 2
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
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


def assert_same(operation, options=None, **how):
    HELD.clear()
    (seen, model, optimizer), _ = train(operation, **how)
    HELD.clear()
    found, stats = train(operation, {"activations": 1, **(options or {})}, **how)
    assert same_tensors(found[0], seen)
    assert same_tensors(found[1].state_dict(), model.state_dict())
    assert same_state(found[2], optimizer)
    return stats


@shows_kept("saved tensors that are computed again in backward, where that is exact and faster than moving them")
@pytest.mark.parametrize("kind", OPERATIONS)
def test_what_an_operation_made_is_computed_again(kind):
    stats = assert_same(KINDS[kind])
    # Of all layers but the last, in all steps but the first: that is used right away.
    assert stats.activation_again_bytes >= (LAYERS - 1) * 3 * ROWS * WIDTH * 4
    assert "computed again" in str(stats)


@pytest.mark.parametrize(
    "how",
    [
        {"autocast": True},
        {"twice": True},
        {"options": {"verify": True}},
        {"options": {"link": "1GB/s"}},
        {"options": {"budget": "150%"}},
    ],
    ids=["autocast", "backward twice", "verify", "a slow link", "state on the device"],
)
def test_it_is_so_in_every_way(how):
    with patch.object(attach, "STEPS_BEFORE", 1):
        assert assert_same(KINDS["MulBackward0"], **how).activation_again_bytes > 0


def test_a_chain_is_computed_again_link_by_link():
    """The product of silu(x) needs that, which is dropped, too."""
    only = assert_same(KINDS["SiluBackward0"]).activation_again_bytes
    assert assert_same(lambda x: functional.silu(x) * functional.gelu(x)).activation_again_bytes > only


CHANGES = {
    "the result, unseen": lambda _, made: made.data.mul_(0.5),
    "the argument, unseen": lambda made_from, _: made_from.data.mul_(0.5),
    "both are held": lambda made_from, made: HELD.extend([made_from, made]),
    "the argument is held": lambda made_from, _: HELD.append(made_from),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_user_code_did_to_it_stays(change):
    assert_same(KINDS["GeluBackward0"], change=CHANGES[change])


def test_what_was_written_to_is_no_longer_what_was_made():
    assert_same(lambda x: functional.gelu(x).add_(1))
    assert_same(lambda x: functional.silu(x, inplace=True))


class InPlace(torch.autograd.Function):
    """A tenth of its argument; its gradient is put where that lay, unseen by torch, as some fused kernels do."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 0.1

    @staticmethod
    def backward(ctx, slope):
        (x,) = ctx.saved_tensors
        x.data.copy_(slope * 0.1)
        return x.clone()


class Beside(nn.Module):
    """Something made of a tensor, and a function beside it whose backward runs first and writes to that tensor."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        made_from = self.up(x)
        return x + self.down(functional.gelu(made_from)) + InPlace.apply(made_from)


@shows_kept("functions of your own whose backward writes to what they saved, unseen by torch")
@pytest.mark.parametrize("options", [{}, {"verify": True}, {"link": "1GB/s"}], ids=["plain", "verify", "a slow link"])
def test_what_backward_writes_to_is_not_what_others_are_computed_of(options):
    found = []
    for wrapped in (False, True):
        torch.manual_seed(0)
        model = nn.Sequential(*(Beside() for _ in range(LAYERS)))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        cached = tencache.wrap(model, optimizer, budget="90%", activations=1, **options) if wrapped else None
        for step in range(5):
            loss = model(torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(step))).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        if cached is not None:
            assert cached.stats().activation_again_bytes > 0
            cached.unwrap()
        found.append(model.state_dict())
    assert same_tensors(found[1], found[0])


def test_random_numbers_are_not_drawn_again():
    stats = assert_same(lambda x: functional.dropout(torch.relu(x), 0.5))
    assert stats.activation_again_bytes == 0


def train_with_backward_elsewhere(options):
    """Train within one autocast that goes on over all steps, whose casts are kept, with backward in another thread."""
    torch.manual_seed(0)
    model = nn.Sequential(*(Layer(functional.gelu, None) for _ in range(LAYERS)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    cached = None if options is None else tencache.wrap(model, optimizer, **options)
    seen = []
    with torch.autocast("cpu", torch.bfloat16):
        for step in range(6):
            x = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(step)) + 2
            loss = model(x).float().square().mean()
            backward = threading.Thread(target=loss.backward)
            backward.start()
            backward.join()
            seen.append(loss.detach())
            optimizer.step()
            optimizer.zero_grad()
    again_bytes = 0 if cached is None else cached.stats().activation_again_bytes
    if cached is not None:
        cached.unwrap()
    return seen, model.state_dict(), again_bytes


def test_casts_of_an_autocast_in_another_thread_are_kept():
    """Backward on a GPU has a thread of its own, in which no autocast is open."""
    seen, state, _ = train_with_backward_elsewhere(None)
    found, found_state, again_bytes = train_with_backward_elsewhere({"budget": "90%", "activations": 1})
    assert again_bytes > 0
    assert same_tensors(found, seen)
    assert same_tensors(found_state, state)


def test_it_is_computed_with_as_many_threads_as_it_was_made():
    """On the CPU the last bits of Mish depend on how many threads share it."""
    rows, width = 301, 203
    slopes = []
    before = torch.get_num_threads()
    try:
        for wrapped in (False, True):
            torch.manual_seed(0)
            model = nn.Sequential(*(Layer(functional.mish, None) for _ in range(LAYERS)))
            for layer in model:
                layer.up, layer.down = nn.Linear(width, width), nn.Linear(width, width)
            cached = tencache.wrap(model, budget="100%", activations=1) if wrapped else None
            for _ in range(3):
                model.zero_grad()
                torch.set_num_threads(1)
                loss = model(torch.randn(rows, width, generator=torch.Generator().manual_seed(0))).sum()
                torch.set_num_threads(2)
                loss.backward()
            assert torch.get_num_threads() == 2
            slopes.append([parameter.grad.clone() for parameter in model.parameters()])
            if cached is not None:
                assert cached.stats().activation_again_bytes > 0
                cached.unwrap()
    finally:
        torch.set_num_threads(before)
    assert same_tensors(slopes[1], slopes[0])


def test_a_graph_from_before_unwrap_has_what_was_dropped():
    slopes = []
    for wrapped in (False, True):
        torch.manual_seed(0)
        model = nn.Sequential(*(Layer(KINDS["MulBackward0"], None) for _ in range(LAYERS)))
        cached = tencache.wrap(model, budget="100%", activations=1) if wrapped else None
        for _ in range(3):
            model.zero_grad()
            loss = model(torch.ones(ROWS, WIDTH)).sum()
            if _ < 2:
                loss.backward()
        if cached is not None:
            cached.unwrap()
            assert cached.counters.activation_again_bytes > 0
        loss.backward()
        slopes.append([parameter.grad.clone() for parameter in model.parameters()])
    assert same_tensors(slopes[1], slopes[0])


def test_verify_finds_what_came_back_otherwise():
    torch.manual_seed(0)
    model = nn.Sequential(*(Layer(torch.relu, None) for _ in range(LAYERS)))
    cached = tencache.wrap(model, budget="100%", activations=1, verify=True)
    loss = model(torch.ones(ROWS, WIDTH)).sum()
    cached.link.drain()
    memory = next(one for one in cached._activations._live if one.host is not None and one.data is None)
    memory.host[0] += 1
    with pytest.raises(CorruptedError, match="saved for backward"):
        loss.backward()


def test_the_hosts_memory_counts_saved_tensors():
    model = nn.Sequential(*(Layer(torch.relu, None) for _ in range(LAYERS)))
    size_bytes = sum(parameter.nbytes for parameter in model.parameters())
    cached = tencache.wrap(model, budget="100%", activations=1, host=3 * size_bytes)
    with pytest.raises(RefusedError, match="that host= leaves them"):
        model(torch.ones(64 * ROWS, WIDTH)).sum()
    cached.unwrap()


def test_a_plan_of_a_trace_that_was_saved_says_what_is_computed_again(tmp_path, capsys):
    torch.manual_seed(0)
    model = nn.Sequential(*(Layer(KINDS["GeluBackward0"], None) for _ in range(LAYERS)))
    cached = tencache.wrap(model, torch.optim.SGD(model.parameters()), budget="90%", activations=1)
    model(torch.ones(ROWS, WIDTH)).sum().backward()
    cached.optimizer.step()
    cached.trace.save(tmp_path / "trace.json")
    assert StepTrace.load(tmp_path / "trace.json") == cached.trace
    assert cli.main(["plan", str(tmp_path / "trace.json"), "--budget", "90%", "--activations", "1KiB"]) == 0
    assert "computed again" in capsys.readouterr().out


# Ten bytes each; the second is made of the first in a second, and backward uses them in reverse.
SAVES = (Saved(10, 0, 9), Saved(10, 1, 8, 1.0, (0,)), Saved(10, 2, 7), Saved(10, 3, 6))


def test_what_others_are_computed_of_is_back_when_they_are():
    assert plan_offloads(SAVES, 20) == (Offload(1, 7), Offload(0, 8))
    # The first is needed for the second, so it comes back one operation earlier.
    assert plan_offloads(SAVES, 20, {1}) == (Offload(0, 7),)
    assert floor_offloaded_bytes(SAVES, 20) == 10


@pytest.mark.parametrize(("bytes_per_s", "again"), [(1.0, {1}), (1e9, set())])
def test_the_clock_decides_between_moving_and_computing_again(monkeypatch, bytes_per_s, again):
    """Ten bytes down and up take twenty seconds on the slow link; computing three times takes three."""
    monkeypatch.setattr(virtual_clock, "_fastest", FASTEST)
    ops = tuple(Op((0,), (), 1.0, "forward" if index < 4 else "backward") for index in range(10))
    speeds = virtual_clock.Bandwidths(bytes_per_s, bytes_per_s, activation_bytes=20)
    plan = virtual_clock.best_plan(StepTrace((Unit("a", 512),), ops, saves=SAVES), 512, speeds)
    assert plan.again == again


def test_what_checkpointing_saves_is_not_taken_for_what_a_node_saved():
    """A product with a constant saves one tensor; what checkpointing saves next comes under the number of its node."""

    def operation(x):
        narrow = x[:, :8].contiguous()
        made = x * torch.full((1, WIDTH), 0.5)
        return made + checkpoint(torch.tanh, narrow, use_reentrant=False).sum() + functional.silu(made)

    assert_same(operation)
