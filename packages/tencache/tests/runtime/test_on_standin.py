"""Order, fences and lifetimes on a device that does everything late: right for any order that streams allow.

The reference is a twin without tencache: its parameters are all on the device, and are sent up and down, one by one and
synchronously, around each step of an optimizer on the host.
"""

import copy
from dataclasses import replace
from functools import cache

import pytest
import torch
from tencache_cases import SMALL, Case, make, same_state, same_tensors, train
from torch import nn

import tencache
from tencache.bench.identity_suite import DeviceTwin
from tencache.runtime.memory.link import StreamLink

DEVICE = "standin"
STEPS = 5
FEW = replace(SMALL, layers=4)


def _few(**changes):
    return Case(replace(FEW, **changes))


CASES = {
    "plain": Case(FEW),
    "tied": _few(tied=True),
    "accumulation": Case(FEW, micro_batches=3),
    "clipping": Case(FEW, clip=0.5),
    "checkpoint_reentrant": _few(recompute="reentrant"),
    "checkpoint_nonreentrant": _few(recompute="nonreentrant"),
    "evaluation": Case(FEW, evaluate_every=2),
    "batch_shape": Case(FEW, lengths=(12, 12, 7)),
    "frozen": Case(FEW, frozen=True),
    "autocast": Case(FEW, autocast=True, micro_batches=2),
    "autocast_checkpoint": Case(replace(FEW, recompute="nonreentrant"), autocast=True),
}


class Twin(DeviceTwin):
    """The twin, as the training loop of the tests wants it."""

    def __init__(self, model):
        super().__init__(model, torch.device(DEVICE))

    def eval(self):
        self._device.eval()

    def train(self):
        self._device.train()


@cache
def reference(name):
    """Losses, parameters and optimizer of the run without tencache."""
    model, optimizer = make(CASES[name])
    twin = Twin(model)

    def collect(*_):
        if CASES[name].clip is None:
            twin.parameters()

    optimizer.register_step_pre_hook(collect)
    return train(CASES[name], twin, optimizer, STEPS, DEVICE), model, optimizer


def wrapped(case, **options):
    model, optimizer = make(case)
    return model, optimizer, tencache.wrap(model, optimizer, device=DEVICE, **{"budget": "35%", **options})


@pytest.mark.parametrize("budget", ["40%", "60%"])
@pytest.mark.parametrize("name", CASES)
def test_a_run_on_the_device_is_the_unwrapped_one(standin, name, budget):
    losses, expected, expected_optimizer = reference(name)
    model, optimizer, cached = wrapped(CASES[name], budget=budget)
    assert train(CASES[name], model, optimizer, STEPS, DEVICE) == losses
    assert same_tensors(model.state_dict(), expected.state_dict())
    assert same_state(optimizer, expected_optimizer)
    cached.unwrap()
    assert same_tensors(model.state_dict(), expected.state_dict())


# ---- Each fence is needed: without it the same run is wrong, or the device finds fault ------------------------------


def _plain_run(machine):
    """Return whether a run was right, and no fault was found."""
    losses, expected, _ = reference("plain")
    model, optimizer, cached = wrapped(CASES["plain"], budget="30%")
    same = train(CASES["plain"], model, optimizer, STEPS, DEVICE) == losses
    same = same and same_tensors(model.state_dict(), expected.state_dict())
    cached.unwrap()
    machine.synchronize()
    return same and machine.faults() == []


@pytest.mark.parametrize(
    ("method", "broken"),
    [
        pytest.param("fence", lambda _: (), id="a copy waits for what computes"),
        pytest.param("await_on_device", lambda _, copy: copy.wait(), id="what computes waits for its upload"),
        pytest.param("_synchronize", lambda _: None, id="unwrap waits for copies on their way"),
    ],
)
def test_without_this_fence_the_run_is_wrong(unstarted, monkeypatch, method, broken):
    assert _plain_run(unstarted)
    monkeypatch.setattr(StreamLink, method, broken)
    assert not _plain_run(unstarted)


def test_without_waiting_for_gradients_the_run_is_wrong(unstarted, monkeypatch):
    monkeypatch.setattr("tencache.runtime.memory.link._wait_for_stream", lambda _: None)
    assert not _plain_run(unstarted)


class Branches(nn.Module):
    """Two branches at once, each on a stream of its own, as programs for a GPU have them."""

    def __init__(self):
        super().__init__()
        self.side = nn.Sequential(*(nn.Linear(32, 32) for _ in range(4)))
        self.main = nn.Sequential(*(nn.Linear(32, 32) for _ in range(12)))
        self.stream = torch.Stream(DEVICE)

    def forward(self, x):
        current = torch.accelerator.current_stream()
        self.stream.wait_stream(current)
        with self.stream:
            side = self.side(x)
        main = self.main(x)
        current.wait_stream(self.stream)
        side.record_stream(current)
        return (side + main).square().mean()


def _branches(wrap_it):
    torch.manual_seed(0)
    model = Branches()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    twin = None if wrap_it else _device_copy(model)
    cached = tencache.wrap(model, optimizer, device=DEVICE, budget="30%") if wrap_it else None
    losses = []
    for step in range(4):
        x = torch.randn(8, 32, generator=torch.Generator().manual_seed(step)).to(DEVICE)
        loss = model(x) if twin is None else twin(x)
        loss.backward()
        losses.append(loss.item())
        if twin is not None:
            twin.parameters()
        optimizer.step()
        optimizer.zero_grad()
    if cached is not None:
        cached.unwrap()
    return losses


def _device_copy(model):
    twin = Twin.__new__(Twin)
    stream, model.stream = model.stream, None
    twin._host, twin._device = model, copy.deepcopy(model).to(DEVICE)
    model.stream = twin._device.stream = stream
    return twin


def test_work_on_another_stream_keeps_its_weights(standin):
    assert _branches(wrap_it=True) == _branches(wrap_it=False)


def test_a_fence_on_one_stream_is_not_enough(unstarted, monkeypatch):
    expected = _branches(wrap_it=False)
    monkeypatch.setattr(StreamLink, "fence", lambda link: (link.mark(),))
    assert _branches(wrap_it=True) != expected


# ---- Times are the device's ----------------------------------------------------------------------------------------


def test_the_profile_has_the_times_of_events(unstarted):
    """The host is done with a step in a moment; a kernel of the stand-in takes half a second of its own time."""
    unstarted.configure(0, 0.0, 0.5, 1e9, 1e9)
    model, optimizer, cached = wrapped(CASES["plain"])
    train(CASES["plain"], model, optimizer, 2, DEVICE)
    assert all(op.compute_s >= 0.5 or op.phase == "backward" for op in cached.trace.ops)
    assert sum(op.compute_s for op in cached.trace.ops) > 100
    cached.unwrap()


def test_the_speed_of_the_link_is_measured_when_wrapping(unstarted):
    unstarted.configure(0, 0.0, 1e-4, 3e9, 2e9)
    _, _, cached = wrapped(CASES["plain"])
    assert cached.engine.plans.speeds.up == pytest.approx(3e9, rel=0.01)
    assert cached.engine.plans.speeds.down == pytest.approx(2e9, rel=0.01)
    cached.unwrap()


@pytest.mark.parametrize(("bytes_per_s", "waits"), [(1e15, False), (1e5, True)])
def test_stalls_are_those_of_the_device(unstarted, bytes_per_s, waits):
    """Whatever the host waits for: over a fast link everything is ready, over a slow one next to nothing."""
    unstarted.configure(0, 0.0, 1e-4, bytes_per_s, bytes_per_s)
    model, optimizer, cached = wrapped(CASES["plain"])
    train(CASES["plain"], model, optimizer, 4, DEVICE)
    before = cached.stats()
    train(CASES["plain"], model, optimizer, 1, DEVICE)
    after = cached.stats()
    ready = after.ready_rate * after.touches - before.ready_rate * before.touches
    stall_s = after.load_stall_s - before.load_stall_s
    if waits:
        assert ready < 0.7 * (after.touches - before.touches)
        assert stall_s > 0.1
    else:
        # The first layer is sent when the step is over, and waits for it.
        assert ready >= after.touches - before.touches - 2
        assert stall_s < 1e-4
    cached.unwrap()


def test_copies_are_asynchronous_whatever_the_layout(unstarted):
    """A gradient in another order of dimensions is one piece of memory, too, and everything on the host is pinned."""
    model = nn.Linear(256, 128, bias=False)
    model.weight = nn.Parameter(torch.randn(256, 128, generator=torch.Generator().manual_seed(0)).t())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    cached = tencache.wrap(model, optimizer, device=DEVICE, budget="100%")
    x = torch.ones(4, 256).to(DEVICE)
    before = unstarted.slow_copies()
    model(x).sum().backward()
    optimizer.step()
    cached.stats()
    assert unstarted.slow_copies() == before
    cached.unwrap()


def test_a_tensor_left_on_the_host_is_an_error_as_on_any_device(standin):
    model, _, cached = wrapped(CASES["plain"])
    with pytest.raises(RuntimeError, match="same device"):
        model(torch.zeros(2, 12, dtype=torch.long)).backward()
    cached.unwrap()
