"""Host memory, the file, and what they hold."""

import copy

import pytest
import torch
from tencache_cases import Case, make, same_state, same_tensors, train, wrap

from tencache import RefusedError
from tencache.plan.address_map import AddressMap
from tencache.runtime.memory.host_pool import HostPool
from tencache.runtime.optimizer.filed_state import FiledState, Shares
from tencache.runtime.tensors.host_split import spread_over_file


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
    in_file = {host: cached.masters.filed_bytes > 0, "state": stats.state_in_file_bytes > 0}
    assert in_file == {host: host == "900KiB", "state": host != "8MiB"}
    cached.unwrap()
    assert same_tensors(model.state_dict(), reference.state_dict())
    assert same_state(optimizer, reference_optimizer)
    assert not any(isinstance(state, FiledState) for state in optimizer.state.values())


def test_host_memory_stays_below_what_was_given(tmp_path):
    model, optimizer = make(Case())
    cached = wrap(model, optimizer, host="1200KiB", nvme=tmp_path)
    train(Case(), model, optimizer, 4)
    stats = cached.stats()
    store = cached._stepper.store
    assert stats.host_peak_bytes + stats.state_in_memory_bytes + store.peak_bytes <= 1200 * 1024
    cached.unwrap()


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


@pytest.mark.parametrize(("nvme", "advice"), [(False, "or give nvme= a folder"), (True, "raise host=$")])
def test_too_little_host_memory_is_refused(nvme, advice, tmp_path):
    with pytest.raises(RefusedError, match=advice):
        wrap(*make(Case()), host="100KiB", nvme=tmp_path if nvme else None)


def test_state_is_shared_out_evenly_and_never_above_the_limit():
    shares = Shares(limit_bytes=500)
    kept = [shares.keeps(100, 1000) for _ in range(10)]
    assert sum(kept) == 5
    assert all(sum(kept[start : start + 4]) in {1, 2, 3} for start in range(7))


def test_units_are_spread_evenly_over_memory_and_file():
    filed = spread_over_file([100] * 10, 500)
    assert len(filed) == 5
    assert spread_over_file([100] * 10, 1000) == frozenset()


def test_the_pool_reuses_and_pins_little_more_than_asked():
    pool = HostPool(pin=False)
    pool.reserve([1_000_000] * 8 + [300_000] * 8)
    buffers = [pool.take(1_000_000) for _ in range(8)] + [pool.take(300_000) for _ in range(8)]
    for buffer in buffers:
        pool.give(buffer)
    assert pool.take(1_000_000).data_ptr() in {buffer.data_ptr() for buffer in buffers}
    stats = pool.stats()
    assert stats.reused == 1
    assert stats.pinned_bytes <= 1.05 * stats.asked_bytes
    assert stats.peak_bytes <= stats.pinned_bytes


def test_the_pool_grows_only_when_nothing_is_free():
    pool = HostPool(pin=False)
    first = pool.take(4096)
    pool.give(first)
    pool.take(4096)
    assert pool.stats().pinned_bytes == 4096
    pool.take(4096)
    assert pool.stats().pinned_bytes == 8192


def test_a_layout_joins_its_gaps():
    layout = AddressMap(4096)
    for unit in range(4):
        layout.place(unit, layout.window_at(unit * 1024, 1024), lambda _: 0)
    for unit in (1, 2, 0):
        layout.remove(unit, 0)
    assert [window.evicts for window in layout.windows(3072, lambda unit: unit == 3)] == [()]


def test_pinned_bytes_of_a_model_are_those_asked_for():
    model, optimizer = make(Case())
    cached = wrap(model, optimizer)
    train(Case(), model, optimizer, 2)
    stats = cached.stats()
    assert stats.host_pinned_bytes <= 1.05 * stats.host_asked_bytes
    cached.unwrap()
