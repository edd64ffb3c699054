"""Optimizer state in the file is as if it were in memory."""

import copy

import pytest
import torch
from tencache_cases import Case, make, same_state, same_tensors, train, wrap

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
