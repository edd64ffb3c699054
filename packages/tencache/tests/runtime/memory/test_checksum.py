"""`verify=True` finds bytes that are not what was written."""

import os

import pytest
from tencache_cases import Case, make, train, wrap

from tencache import CopyError, CorruptedError
from tencache.runtime.memory.host_pool import HostPool
from tencache.runtime.memory.nvme_file import FileTier


def test_verify_finds_a_flipped_byte_on_the_device():
    model, optimizer = make(Case())
    cached = wrap(model, optimizer, verify=True)
    train(Case(), model, optimizer, 2)
    for slot in cached.engine.device_copies.slots.values():
        slot.copy.wait()
        slot.data[100] ^= 1
    with pytest.raises(CorruptedError, match="its bytes on the device are not those that were sent"):
        train(Case(), model, optimizer, 1)
    cached.unwrap()


def test_verify_is_quiet_when_nothing_is_wrong(tmp_path):
    model, optimizer = make(Case())
    cached = wrap(model, optimizer, verify=True, host="1500KiB", nvme=tmp_path)
    train(Case(), model, optimizer, 3)
    cached.unwrap()


def test_verify_finds_a_flipped_byte_in_the_file(tmp_path):
    tier = FileTier(tmp_path, verify=True)
    buffer = HostPool().take(8192)
    extent = tier.allocate(8192)
    buffer.fill_(7)
    tier.write(extent, buffer).wait()
    tier.read(extent, buffer).wait()
    other = HostPool().take(4096)
    other.fill_(8)
    tier._transfer(os.pwritev, type(extent)(extent.offset, 4096), other)
    with pytest.raises(CopyError, match="are not what was written there") as caught:
        tier.read(extent, buffer).wait()
    assert isinstance(caught.value.__cause__, CorruptedError)
    tier.close()
