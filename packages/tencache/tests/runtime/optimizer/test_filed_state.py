"""Optimizer state in the file is as if it were in memory."""

import copy

import pytest
import torch
from tencache_cases import Case, make, same_state, same_tensors, train, wrap

import tencache
from tencache.plan.planner import plan_ahead, with_early
from tencache.runtime import attach
from tencache.runtime.cycle import plan_book
from tencache.runtime.memory.nvme_file import FileTier
from tencache.runtime.optimizer import known_optimizers
from tencache.runtime.optimizer.filed_state import FiledState, Shares


@pytest.fixture
def unwrapped(device):
    """On CUDA the optimizer is the host's, so the run to compare with is the one with everything in memory."""
    model, optimizer = make(Case())
    if device == "cuda":
        wrap(model, optimizer, device, budget="100%")
    return train(Case(), model, optimizer, 8, "cpu" if device == "sim" else device), model, optimizer


@pytest.mark.parametrize("host", ["900KiB", "1200KiB", "1700KiB", "8MiB"])
def test_state_and_parameters_in_the_file_change_nothing(host, tmp_path, unwrapped, device):
    losses, reference, reference_optimizer = unwrapped
    model, optimizer = make(Case())
    cached = wrap(model, optimizer, device, host=host, nvme=tmp_path)
    assert train(Case(), model, optimizer, 8, "cpu" if device == "sim" else device) == losses
    assert same_tensors(model.state_dict(), reference.state_dict())
    assert same_state(optimizer, reference_optimizer)
    stats = cached.stats()
    in_file = {host: cached.masters.any_filed, "state": stats.state_in_file_bytes > 0}
    assert in_file == {host: host == "900KiB", "state": host != "8MiB"}
    cached.unwrap()
    assert same_tensors(model.state_dict(), reference.state_dict())
    assert same_state(optimizer, reference_optimizer)
    assert not any(isinstance(state, FiledState) for state in optimizer.state.values())


def test_training_goes_on_after_both_state_dicts_are_loaded(tmp_path):
    model, optimizer = make(Case())
    cached = wrap(model, optimizer, host="900KiB", nvme=tmp_path)
    train(Case(), model, optimizer, 3)
    saved = {key: value.clone() for key, value in model.state_dict().items()}, copy.deepcopy(optimizer.state_dict())
    after = train(Case(), model, optimizer, 2)
    model.load_state_dict(saved[0])
    optimizer.load_state_dict(saved[1])
    assert train(Case(), model, optimizer, 2) == after
    cached.unwrap()


def test_a_filed_state_reads_like_a_dictionary(tmp_path):
    model, optimizer = make(Case())
    cached = wrap(model, optimizer, host="1200KiB", nvme=tmp_path)
    train(Case(), model, optimizer, 2)
    filed = next(state for state in optimizer.state.values() if isinstance(state, FiledState))
    assert set(filed) == {"step", "exp_avg", "exp_avg_sq"}
    assert filed["exp_avg"].abs().sum() > 0
    assert filed.get("nothing") is None
    assert torch.equal(dict(filed.items())["exp_avg_sq"], filed.get("exp_avg_sq"))
    assert len(list(filed.values())) == 3
    cached.unwrap()


def test_state_is_shared_out_evenly_and_never_above_the_limit():
    shares = Shares(limit_bytes=500)
    kept = [shares.keeps(100, 1000) for _ in range(10)]
    assert sum(kept) == 5
    assert all(sum(kept[start : start + 4]) in {1, 2, 3} for start in range(7))


def test_state_loaded_between_backward_and_step_gives_the_staging_memory_back(tmp_path):
    """What was read ahead for the old state must not stay counted: nothing would ever be read ahead again."""
    model, optimizer = make(Case())
    cached = wrap(model, optimizer, host="1200KiB", nvme=tmp_path)
    train(Case(), model, optimizer, 2)
    store = cached._stepper.store
    state = copy.deepcopy(optimizer.state_dict())
    # What was looked at goes back to the file with the next update.
    train(Case(), model, optimizer, 1)
    model(torch.arange(12).view(1, 12)).backward()
    assert store._staged_bytes > 0
    optimizer.load_state_dict(state)
    optimizer.step()
    store._file.writes.close()
    assert store._staged_bytes == 0


def test_copies_of_a_filed_state_hold_its_tensors(tmp_path):
    model, optimizer = make(Case())
    cached = wrap(model, optimizer, host="900KiB", nvme=tmp_path)
    train(Case(), model, optimizer, 2)
    state = next(state for state in optimizer.state.values() if isinstance(state, FiledState))
    whole = dict(state.items())
    assert isinstance(whole["exp_avg"], torch.Tensor)
    for other in (dict(state), {**state}, state.copy(), {} | state):
        assert same_tensors(other, whole)
    assert torch.equal(state.pop("exp_avg"), whole["exp_avg"])
    assert "exp_avg" not in state
    assert state.pop("exp_avg", 7) == 7
    with pytest.raises(KeyError):
        state.pop("exp_avg")
    cached.unwrap()


def looked_at(optimizer, step):
    """What loops do with the state: read it, write to it, hold it, replace a part of it, drop it."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state = optimizer.state[parameters[step % len(parameters)]]
    if step == 1:
        state["exp_avg"].zero_()
    if step == 2:
        state["exp_avg_sq"] = torch.ones_like(state["exp_avg_sq"])
    if step == 3:
        optimizer.state.pop(parameters[5])
        state.update(exp_avg=state["exp_avg"] * 2)
    return optimizer.state[parameters[2]]["exp_avg"], optimizer.state_dict() if step == 4 else None


def test_what_user_code_does_to_a_state_in_the_file_is_done_to_it(tmp_path):
    """It was given a copy: writes were lost, and what it held did not see updates."""
    results = []
    for options in ({}, {"host": "1200KiB", "nvme": tmp_path}):
        model, optimizer = make(Case())
        cached = wrap(model, optimizer, **options) if options else None
        held = []

        def look(step, optimizer=optimizer, held=held):
            held.append(looked_at(optimizer, step))

        losses = train(Case(), model, optimizer, 8, after=look)
        if cached is not None:
            assert cached.stats().state_in_file_bytes
        results.append((losses, held, {key: value.clone() for key, value in model.state_dict().items()}))
        if cached is not None:
            cached.unwrap()
    assert same_tensors(*results)


def test_what_nobody_holds_any_more_goes_back_to_the_file(tmp_path):
    model, optimizer = make(Case())
    cached = wrap(model, optimizer, host="1200KiB", nvme=tmp_path)
    train(Case(), model, optimizer, 2)

    def opened():
        states = map(cached._stepper._state.peek, model.parameters())
        return sum(isinstance(state, FiledState) and state.opened for state in states)

    saved = optimizer.state_dict()
    assert opened() > 1
    train(Case(), model, optimizer, 1)
    assert opened() > 1
    del saved
    train(Case(), model, optimizer, 1)
    assert opened() == 0
    cached.unwrap()


@pytest.mark.parametrize("verify", [False, True])
def test_updates_within_backward_go_through_a_second_place_in_the_file(tmp_path, monkeypatch, verify):
    """The old state stays where it is until step() has asked for the next one."""
    monkeypatch.setattr(known_optimizers, "WORTH_BYTES", 0)
    monkeypatch.setattr(attach, "SLICE_BYTES", 16 * 1024)
    monkeypatch.setattr(plan_book, "best_plan", all_early)
    results = []
    for options in ({}, {"host": "1400KiB", "nvme": tmp_path, "verify": verify}):
        model, optimizer = make(Case())
        cached = wrap(model, optimizer, **options) if options else None
        losses = train(Case(), model, optimizer, 6)
        if cached is not None:
            stats = cached.stats()
            assert stats.state_in_file_bytes
            assert stats.early_updates > 10
            # A look between backward and step: what was computed is thrown away, the old state is still there.
            model(torch.arange(12).view(1, 12)).backward()
            moment = optimizer.state[model.head.weight]["exp_avg"].clone()
            optimizer.step()
            assert cached.stats().discarded_updates
        else:
            model(torch.arange(12).view(1, 12)).backward()
            moment = optimizer.state[model.head.weight]["exp_avg"].clone()
            optimizer.step()
        optimizer.zero_grad()
        losses += train(Case(), model, optimizer, 3)
        results.append((losses, moment, optimizer.state_dict()["state"], model.state_dict()))
    assert same_tensors(*results)


def all_early(trace, budget_bytes, speeds, _):
    return with_early(plan_ahead(trace, budget_bytes), 1.0, 2**62)


def test_without_room_for_a_second_place_nothing_is_early(tmp_path, monkeypatch):
    monkeypatch.setattr(known_optimizers, "WORTH_BYTES", 0)
    asked = []
    real = FileTier.reserve

    def full(self, size_bytes):
        asked.append(size_bytes)
        if len(asked) == 2:
            raise tencache.RefusedError("no room")
        real(self, size_bytes)

    monkeypatch.setattr(FileTier, "reserve", full)
    model, optimizer = make(Case())
    cached = wrap(model, optimizer, host="1400KiB", nvme=tmp_path)
    assert asked[1] == 2 * asked[0]
    train(Case(), model, optimizer, 6)
    assert cached.stats().early_updates == 0
    cached.unwrap()
