"""Host buffers are reused and hardly larger than asked for."""

import ctypes
import re
from pathlib import Path

from tencache_cases import Case, make, train, wrap

from tencache.runtime.memory.host_pool import HostPool
from tencache.runtime.memory.private_mapping import map_private


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


def test_memory_is_this_process_own_and_in_huge_pages():
    """What Python maps by default is shared with forked processes, and never in huge pages."""
    buffer = HostPool().take(8 * 2**20)
    flags = _flags(buffer.data_ptr())
    assert "sh" not in flags
    assert "hg" in flags
    assert "dc" not in flags
    assert buffer.data_ptr() % (2 * 2**20) == 0


def test_memory_that_a_device_copies_from_is_not_forked():
    assert "dc" in _flags(ctypes.addressof(ctypes.c_char.from_buffer(map_private(8 * 2**20, forked=False))))


def _flags(address):
    """Return the kernel's flags of the mapping that holds an address: sh shared, hg huge pages, dc not forked."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
            inside = start <= address < end
        elif inside and line.startswith("VmFlags:"):
            return line.split()[1:]
    raise AssertionError("no such mapping")
