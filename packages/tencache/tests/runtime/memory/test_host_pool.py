"""Host buffers are reused and hardly larger than asked for."""

from tencache_cases import Case, make, train, wrap

from tencache.runtime.memory.host_pool import HostPool


def test_the_pool_reuses_and_pins_little_more_than_asked():
    pool = HostPool()
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
    pool = HostPool()
    first = pool.take(4096)
    pool.give(first)
    pool.take(4096)
    assert pool.stats().pinned_bytes == 4096
    pool.take(4096)
    assert pool.stats().pinned_bytes == 8192


def test_pinned_bytes_of_a_model_are_those_asked_for():
    model, optimizer = make(Case())
    cached = wrap(model, optimizer)
    train(Case(), model, optimizer, 2)
    stats = cached.stats()
    assert stats.host_pinned_bytes <= 1.05 * stats.host_asked_bytes
    cached.unwrap()


def test_buffers_of_whole_pages_begin_at_a_page():
    """Direct access to a disk with blocks of 4 KiB fails into any other; an odd size must not shift its neighbours."""
    pool = HostPool()
    pool.reserve([512, 4096, 1536, 12288, 4096])
    assert [pool.take(size).data_ptr() % 4096 for size in (4096, 4096, 12288, 12288)] == [0, 0, 0, 0]
