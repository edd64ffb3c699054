"""Updates that come after step() has returned: nobody can tell, except by the clock."""

import copy
import os
import signal
import time

import pytest
import torch
from tencache_cases import Case, make, same_state, same_tensors, train, wrap

from tencache.errors import UpdateError
from tencache.runtime.optimizer.stand_in import StandIn, same_elsewhere
from tencache.runtime.optimizer.watched_state import WatchedState

UPDATE_S = 0.03


@pytest.fixture
def slow(monkeypatch):
    """Make every promised update take its time, and return how often one was made."""
    step, calls = StandIn.step, []

    def slowly(self, *arguments):
        calls.append(arguments)
        time.sleep(UPDATE_S)
        step(self, *arguments)

    return lambda: (monkeypatch.setattr(StandIn, "step", slowly), calls)[1]


def trained_once(**options):
    """A wrapped model after steps that made its state and its plans, and gradients for the next."""
    model, optimizer = make(Case())
    cached = wrap(model, optimizer, **options)
    train(Case(), model, optimizer, 4)
    tokens = torch.randint(0, 96, (2, 12))
    model(tokens).backward()
    return model, optimizer, cached


def test_step_returns_before_its_updates(slow, monkeypatch):
    monkeypatch.setattr("tencache.runtime.attach.SLICE_BYTES", 2**14)
    model, optimizer, cached = trained_once()
    calls = slow()
    began = time.perf_counter()
    optimizer.step()
    returned_s = time.perf_counter() - began
    cached.masters.pending.wait_all()
    assert len(calls) > 3
    assert returned_s < len(calls) * UPDATE_S / 2
    assert time.perf_counter() - began >= len(calls) * UPDATE_S
    stats = cached.stats()
    assert stats.late_updates + stats.early_updates >= len(list(model.parameters()))


def test_second_copies_are_within_the_memory_of_the_host():
    """Parameters, gradients and two moments take four times the parameters: nothing is left for second copies."""
    total = sum(parameter.nbytes for parameter in make(Case())[0].parameters())
    rooms = []
    for host in (4.0, 4.5):
        model, optimizer = make(Case())
        cached = wrap(model, optimizer, host=int(host * total * 1.02))
        rooms.append(cached.engine.plans.speeds.second_bytes)
        cached.unwrap()
    assert rooms[0] < 0.2 * total
    assert 0.4 * total < rooms[1] < 0.7 * total


def test_without_overlap_every_update_is_done_when_step_returns():
    _, optimizer, cached = trained_once(overlap=False)
    optimizer.step()
    assert cached.stats().late_updates == 0


@pytest.mark.parametrize("options", [{}, {"host": "900KiB"}])
def test_clipping_and_accumulation_are_late_too(options, tmp_path):
    if options:
        options = {**options, "nvme": tmp_path}
    case = Case(micro_batches=2, clip=0.1)
    plain, plain_optimizer = make(case)
    losses = train(case, plain, plain_optimizer, 5)
    model, optimizer = make(case)
    cached = wrap(model, optimizer, **options)
    assert train(case, model, optimizer, 5) == losses
    stats = cached.stats()
    assert stats.late_updates + stats.early_updates >= 3 * len(list(model.parameters()))
    assert same_tensors(model.state_dict(), plain.state_dict())
    assert same_state(optimizer, plain_optimizer)


def test_after_a_failed_update_every_access_raises(monkeypatch):
    model, optimizer, cached = trained_once()

    def fail(*_):
        raise ArithmeticError("broken")

    monkeypatch.setattr(StandIn, "step", fail)
    optimizer.step()
    weight = next(model.parameters())
    for access in (
        lambda: weight.sum().item(),
        lambda: weight.data,
        lambda: weight.grad,
        lambda: setattr(weight, "data", torch.zeros_like(weight)),
        lambda: optimizer.state[weight],
        optimizer.state_dict,
        model.state_dict,
        optimizer.step,
        lambda: optimizer.load_state_dict({}),
    ):
        with pytest.raises(UpdateError, match="ArithmeticError: broken"):
            access()
    with pytest.raises(UpdateError, match="broken"):
        model(torch.zeros(1, 4, dtype=torch.long))
    with pytest.raises(UpdateError, match="go back to a checkpoint"):
        cached.unwrap()
    assert type(next(model.parameters())) is torch.nn.Parameter
    assert not isinstance(optimizer.state, WatchedState)


def test_a_forked_child_sees_every_update(slow):
    model, optimizer, cached = trained_once()
    slow()
    optimizer.step()
    child = os.fork()
    if child == 0:
        # A child has no threads that copy: it can read what the host has, and must not run the parent's clean-up.
        signal.alarm(20)
        os._exit(0 if not cached.masters.pending.has(0) and next(model.parameters()).detach().isfinite().all() else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_the_state_is_the_optimizers_own_container_when_copied_and_after_unwrapping(slow):
    _, optimizer, cached = trained_once()
    slow()
    optimizer.step()
    plain = type(torch.optim.SGD([torch.ones(1)]).state)
    taken = copy.deepcopy(optimizer.state)
    assert type(taken) is type(copy.copy(optimizer.state)) is type(optimizer.state.copy()) is plain
    cached.unwrap()
    assert type(optimizer.state) is type(taken)
    assert same_tensors(list(optimizer.state.values()), list(taken.values()))


def test_what_belongs_to_a_thread_is_noticed():
    assert same_elsewhere()
    with torch.autocast("cpu", torch.bfloat16):
        assert not same_elsewhere()
    with torch.inference_mode():
        assert not same_elsewhere()
    with torch.device("cpu"):
        assert not same_elsewhere()
    if torch.set_flush_denormal(True):
        assert not same_elsewhere()
        torch.set_flush_denormal(False)
    assert same_elsewhere()
