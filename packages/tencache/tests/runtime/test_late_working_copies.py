"""Late updates, working copies, an asynchronous device and its streams at once: each waits for the one before it."""

import threading
import time

import pytest
import torch
from tencache_cases import make as make_case
from tencache_cases import same_state, same_tensors, train, wrap
from test_on_standin import CASES, DEVICE, STEPS, Twin, reference, wrapped
from test_working_copies import batch, casting, make, plain

import tencache
from tencache.bench.gpt import batches
from tencache.runtime.optimizer.stand_in import StandIn, settings_can_be_frozen
from tencache.runtime.tensors import gradients
from tencache.runtime.tensors.device_copies import DeviceCopies
from tencache.runtime.tensors.pending_updates import PendingUpdates

UPDATE_S = 0.01


@pytest.fixture(autouse=True)
def _weights_are_large(monkeypatch):
    """As in a model of many megabytes: a weight's gradient is a copy of its own, and an update one of few weights."""
    monkeypatch.setattr(gradients, "SMALL_BYTES", 512)
    monkeypatch.setattr("tencache.runtime.attach.SLICE_BYTES", 2**13)


@pytest.fixture(autouse=True)
def late(monkeypatch):
    """Make every update that comes late come later still, and return the threads on which updates were made."""
    step, threads = StandIn.step, []

    def slowly(self, *arguments):
        threads.append(threading.current_thread().name)
        if threads[-1] == "tencache-optimizer":
            time.sleep(UPDATE_S)
        step(self, *arguments)

    monkeypatch.setattr(StandIn, "step", slowly)
    return lambda: threads.count("tencache-optimizer")


def inside(model, optimizer, step):
    """The step is inside autocast, whose casts of old values are used afterwards."""
    with casting():
        loss = model(batch(step))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return [loss, model(batch(step))]


def in_a_disabled_one(model, optimizer, step):
    with casting():
        loss = model(batch(step))
        with casting(enabled=False):
            loss.backward()
            optimizer.step()
        optimizer.zero_grad()
        return [loss, model(batch(step))]


def backward_after_step(model, optimizer, step):
    """The second backward needs the casts from before the updates that the first one led to."""
    with casting():
        loss, other = model(batch(step)), model(batch(step + 1))
    loss.backward(retain_graph=True)
    optimizer.step()
    optimizer.zero_grad()
    other.backward()
    return [loss, *[parameter.grad.clone() for parameter in model.parameters()]]


def written_after_step(model, optimizer, step):
    """Assigned while the update is on its way: what the optimizer works on is no view that user code holds."""
    losses = plain(model, optimizer, step)
    weight = model.layers[step % 3].weight
    weight.data = torch.full_like(weight, 0.01 * step)
    with torch.no_grad():
        model.layers[4].weight.mul_(0.9)
    return losses


def run(loop, wrap_it, **options):
    """Losses, parameters and state; and the statistics."""
    model, optimizer = make()
    cached = wrap(model, optimizer, **{"budget": "45%", **options}) if wrap_it else None
    losses = [loop(model, optimizer, step) for step in range(STEPS)]
    stats, plan = (None, None) if cached is None else (cached.stats(), cached.plan)
    if cached is not None:
        cached.unwrap()
    return ([*losses, model.state_dict(), optimizer.state_dict()["state"]]), stats, plan


@pytest.mark.parametrize("options", [{}, {"verify": True}, {"overlap": False}], ids=str)
@pytest.mark.parametrize(
    "loop", [plain, inside, in_a_disabled_one, backward_after_step, written_after_step], ids=lambda loop: loop.__name__
)
def test_bits_are_those_of_the_unwrapped_run_however_late_an_update_is(loop, options, late):
    expected, _, _ = run(loop, wrap_it=False)
    found, stats, _ = run(loop, wrap_it=True, **options)
    assert same_tensors(found, expected)
    at_once = loop is inside or options == {"overlap": False}
    assert (stats.late_updates == 0) == (late() == 0) == at_once


def test_bits_with_everything_in_the_file(tmp_path, late):
    expected, _, _ = run(plain, wrap_it=False)
    found, _, _ = run(plain, wrap_it=True, host="48KiB", nvme=tmp_path)
    assert same_tensors(found, expected)
    assert late() > 0


def test_halves_move_although_their_updates_are_late():
    _, stats, plan = run(plain, wrap_it=True)
    names = {plan.trace.units[load.unit].name for load in plan.loads}
    assert {name for name in names if "weight" in name} == {f"layers.{index}.weight as half" for index in range(6)}
    assert stats.late_updates > 0
    # An update on its way is not taken for a view, for which the whole would have to go up.
    assert stats.order_changes == 0


def test_a_half_that_does_not_wait_for_its_update_makes_the_run_wrong(monkeypatch):
    expected, _, _ = run(plain, wrap_it=False)
    monkeypatch.setattr(PendingUpdates, "wait", lambda *_: None)
    found, _, _ = run(plain, wrap_it=True)
    assert not same_tensors(found, expected)


def test_what_is_on_a_device_is_not_left_to_another_thread():
    _, optimizer = make()
    assert settings_can_be_frozen(optimizer)
    optimizer.grad_scale = torch.ones(1, device="meta")
    assert not settings_can_be_frozen(optimizer)


# ---- On a device that does everything late --------------------------------------------------------------------------


def _on_standin(machine, name, **options):
    losses, expected, expected_optimizer = reference(name)
    model, optimizer, cached = wrapped(CASES[name], **options)
    same = train(CASES[name], model, optimizer, STEPS, DEVICE) == losses
    assert cached.stats().late_updates > 0
    cached.unwrap()
    same = same and same_tensors(model.state_dict(), expected.state_dict())
    same = same and same_state(optimizer, expected_optimizer)
    machine.synchronize()
    return same and machine.faults() == []


@pytest.mark.parametrize("name", ["plain", "accumulation", "clipping", "autocast", "autocast_checkpoint"])
def test_late_updates_do_not_race_uploads(standin, name):
    assert _on_standin(standin, name)


def test_late_updates_of_what_is_in_the_file(standin, tmp_path):
    assert _on_standin(standin, "autocast", host="360KiB", nvme=tmp_path)


@pytest.mark.parametrize("name", ["plain", "autocast"])
def test_without_waiting_for_updates_the_run_is_wrong(unstarted, monkeypatch, name):
    assert _on_standin(unstarted, name)
    monkeypatch.setattr(PendingUpdates, "wait", lambda *_: None)
    assert not _on_standin(unstarted, name)


def _read_after_step(twin, case=CASES["plain"]):
    """Return what evaluations told that were asked for before step(), and read after it."""
    model, optimizer = make_case(case)
    cached = None if twin else tencache.wrap(model, optimizer, device=DEVICE, budget="35%")
    on_device = Twin(model) if twin else model
    seen = []
    for step in range(STEPS):
        tokens = batches(case.config, 1, size=2, length=12, seed=step)[0].to(DEVICE)
        on_device(tokens).backward()
        if twin:
            on_device.parameters()
        with torch.no_grad():
            asked = on_device(tokens)
        optimizer.step()
        optimizer.zero_grad()
        if cached is not None:
            cached.masters.pending.wait_all()
        seen.append(asked.item())
    if cached is not None:
        assert cached.stats().late_updates > 0
        cached.unwrap()
    return seen


def test_an_update_waits_for_the_uploads_of_what_it_changes(unstarted, monkeypatch):
    """An evaluation that was asked for before step() is of the parameters from before it, whenever it is computed."""
    expected = _read_after_step(twin=True)
    assert _read_after_step(twin=False) == expected
    monkeypatch.setattr(DeviceCopies, "settle", lambda _: None)
    assert _read_after_step(twin=False) != expected


@pytest.mark.parametrize("name", ["plain", "autocast"])
def test_a_failed_update_is_told_where_the_device_would_have_needed_it(unstarted, monkeypatch, name):
    model, optimizer, cached = wrapped(CASES[name])
    train(CASES[name], model, optimizer, 3, DEVICE)

    def fail(*_):
        raise ArithmeticError("broken")

    monkeypatch.setattr(StandIn, "step", fail)
    with pytest.raises(tencache.UpdateError, match="ArithmeticError: broken"):
        train(CASES[name], model, optimizer, 2, DEVICE)
    with pytest.raises(tencache.UpdateError, match="go back to a checkpoint"):
        cached.unwrap()
    assert all(type(parameter) is torch.nn.Parameter for parameter in model.parameters())
    unstarted.synchronize()
    assert unstarted.faults() == []
