"""How the host's memory is divided."""

import pytest
from tencache_cases import Case, make, train, wrap

from tencache import RefusedError
from tencache.runtime.tensors.host_split import spread_over_file


def test_host_memory_stays_below_what_was_given(tmp_path):
    model, optimizer = make(Case())
    cached = wrap(model, optimizer, host="1200KiB", nvme=tmp_path)
    train(Case(), model, optimizer, 4)
    stats = cached.stats()
    store = cached._stepper.store
    assert stats.host_peak_bytes + stats.state_in_memory_bytes + store._pool.stats().peak_bytes <= 1200 * 1024
    cached.unwrap()


@pytest.mark.parametrize(("nvme", "advice"), [(False, "or give nvme= a folder"), (True, "raise host=$")])
def test_too_little_host_memory_is_refused(nvme, advice, tmp_path):
    with pytest.raises(RefusedError, match=advice):
        wrap(*make(Case()), host="100KiB", nvme=tmp_path if nvme else None)


def test_units_are_spread_evenly_over_memory_and_file():
    filed = spread_over_file([100] * 10, 500)
    assert len(filed) == 5
    assert spread_over_file([100] * 10, 1000) == frozenset()
