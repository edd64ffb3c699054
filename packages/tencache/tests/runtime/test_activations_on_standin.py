"""Saved tensors that go to the host and come back, on a device that does everything late."""

import sys
from unittest.mock import patch

import pytest
from tencache_cases import same_state, same_tensors, train
from test_on_standin import CASES, DEVICE, STEPS, reference, wrapped

from tencache.plan import virtual_clock
from tencache.runtime.memory.link import StreamLink
from tencache.runtime.tensors import activations


@pytest.fixture(autouse=True)
def small():
    """Everything is worth a copy."""
    with patch.object(activations, "WORTH_BYTES", 64):
        yield


@pytest.mark.parametrize("limit", [1, 20_000])
@pytest.mark.parametrize("name", CASES)
def test_a_run_on_the_device_is_the_unwrapped_one(standin, name, limit):
    losses, expected, expected_optimizer = reference(name)
    model, optimizer, cached = wrapped(CASES[name], budget="60%", activations=limit)
    assert train(CASES[name], model, optimizer, STEPS, DEVICE) == losses
    assert cached.stats().activation_bytes > 0
    cached.unwrap()
    assert same_tensors(model.state_dict(), expected.state_dict())
    assert same_state(optimizer, expected_optimizer)


def test_without_a_fence_before_each_copy_the_run_is_wrong(unstarted, monkeypatch):
    """With all parameters on the device only saved tensors need it."""
    losses, expected, _ = reference("plain")
    own = StreamLink.fence

    def fence(self):
        saved = sys._getframe(1).f_code.co_filename == activations.__file__
        return () if saved else own(self)

    monkeypatch.setattr(StreamLink, "fence", fence)
    model, optimizer, cached = wrapped(CASES["plain"], budget="100%", activations=1)
    same = train(CASES["plain"], model, optimizer, STEPS, DEVICE) == losses
    same = same and same_tensors(model.state_dict(), expected.state_dict())
    cached.unwrap()
    unstarted.synchronize()
    assert not same or unstarted.faults() != []


@pytest.mark.parametrize("waits", [True, False])
def test_only_with_waiting_for_what_comes_back_the_run_is_right(unstarted, monkeypatch, waits):
    """What went is on the host before backward begins: it must come back, and a device that starts nothing is late."""
    losses, expected, _ = reference("plain")
    own = StreamLink.await_on_device

    def await_on_device(self, copy):
        if waits or sys._getframe(1).f_code.co_name != "_await":
            own(self, copy)

    model, optimizer, cached = wrapped(CASES["plain"], budget="100%", activations=1)
    model.register_forward_hook(lambda *_: _all_gone(unstarted, cached))
    monkeypatch.setattr(StreamLink, "await_on_device", await_on_device)
    same = train(CASES["plain"], model, optimizer, STEPS, DEVICE) == losses
    same = same and same_tensors(model.state_dict(), expected.state_dict())
    cached.unwrap()
    unstarted.synchronize()
    assert (same and unstarted.faults() == []) is waits


def _all_gone(machine, cached):
    machine.synchronize()
    cached.link.drain()


@pytest.mark.parametrize("name", ["plain", "evaluation", "batch_shape", "autocast"])
def test_what_is_computed_again_is_the_same_on_a_device_that_is_late(standin, monkeypatch, name):
    """Whether the bytes are the same is told when the device has come so far; until then they stay."""
    monkeypatch.setattr(virtual_clock, "_fastest", lambda plans, _: plans[-1])
    losses, expected, expected_optimizer = reference(name)
    model, optimizer, cached = wrapped(CASES[name], budget="60%", activations=1)
    assert train(CASES[name], model, optimizer, STEPS, DEVICE) == losses
    assert cached.stats().activation_again_bytes > 0
    cached.unwrap()
    assert same_tensors(model.state_dict(), expected.state_dict())
    assert same_state(optimizer, expected_optimizer)
