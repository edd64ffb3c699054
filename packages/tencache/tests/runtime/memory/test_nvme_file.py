"""The file tier when disks are full, missing or memory, and when the process is killed."""

import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import torch
from tencache_cases import Case, make, same_state, same_tensors, train, wrap

import tencache
from tencache import Notice, RefusedError
from tencache.runtime.memory.host_pool import HostPool
from tencache.runtime.memory.nvme_file import FileTier


def test_a_killed_process_leaves_its_checkpoints_and_no_file(tmp_path):
    """kill -9 in the middle of a step."""
    nvme = tmp_path / "nvme"
    nvme.mkdir()
    script = f"""
        import sys, torch
        sys.path.insert(0, {str(Path(__file__).parents[2])!r})
        from tencache_cases import Case, make, train, wrap
        torch.set_num_threads(1)
        model, optimizer = make(Case())
        wrap(model, optimizer, host="1500KiB", nvme={str(nvme)!r})
        def save(step):
            torch.save([model.state_dict(), optimizer.state_dict(), step], {str(tmp_path / "new")!r})
            import os
            os.replace({str(tmp_path / "new")!r}, {str(tmp_path / "checkpoint")!r})
            print(step, flush=True)
        train(Case(), model, optimizer, 10**6, after=save)
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) >= 4:
            break
    time.sleep(0.02)
    assert list(nvme.iterdir()) == []
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert list(nvme.iterdir()) == []
    parameters, state, step = torch.load(tmp_path / "checkpoint")
    reference, reference_optimizer = make(Case())
    train(Case(), reference, reference_optimizer, step + 1)
    assert same_tensors(parameters, reference.state_dict())
    loaded, loaded_optimizer = make(Case())
    loaded.load_state_dict(parameters)
    loaded_optimizer.load_state_dict(state)
    assert same_state(loaded_optimizer, reference_optimizer)


def test_the_file_does_not_grow_with_steps_or_reloads(tmp_path):
    model, optimizer = make(Case())
    cached = wrap(model, optimizer, host="1500KiB", nvme=tmp_path)
    train(Case(), model, optimizer, 2)
    size = cached.stats().file_bytes
    assert size > 0
    train(Case(), model, optimizer, 5)
    optimizer.load_state_dict(optimizer.state_dict())
    train(Case(), model, optimizer, 2)
    assert cached.stats().file_bytes <= 2 * size  # a plan made from other timings may lay the file out once more
    cached.unwrap()


def test_a_full_disk_is_refused_before_the_step_writes(tmp_path):
    tier = FileTier(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, hard))
    try:
        tier.allocate(2**19)
        with pytest.raises(RefusedError, match=r"no room for 1\.0 MiB more after 512\.0 KiB .*give another nvme="):
            tier.allocate(2**20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    tier.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small file system to fill")
def test_a_really_full_disk_is_refused(tmp_path):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", tmp_path], check=True)
    try:
        model, optimizer = make(Case())
        with (
            pytest.warns(Notice, match="is memory, not a disk"),
            pytest.raises(RefusedError, match="No space left on device"),
        ):
            wrap(model, optimizer, host="1500KiB", nvme=tmp_path)
        train(Case(), model, optimizer, 1)
    finally:
        subprocess.run(["umount", tmp_path], check=True)


@pytest.mark.parametrize("missing", ["nowhere", "file"])
def test_an_unwritable_path_is_refused(tmp_path, missing):
    (tmp_path / "file").touch()
    with pytest.raises(RefusedError, match=r"cannot be written .*give a folder that exists"):
        tencache.wrap(make(Case())[0], budget="50%", host="2MiB", nvme=tmp_path / missing)


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no tmpfs here")
def test_a_file_tier_in_memory_works_and_says_so():
    model, optimizer = make(Case())
    with pytest.warns(Notice, match="is memory, not a disk"):
        cached = wrap(model, optimizer, host="1500KiB", nvme="/dev/shm")
    reference, reference_optimizer = make(Case())
    assert train(Case(), model, optimizer, 3) == train(Case(), reference, reference_optimizer, 3)
    assert cached.stats().file_written_bytes > 0
    cached.unwrap()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a file system without O_DIRECT")
def test_a_file_system_that_refuses_direct_access_works_and_says_so(tmp_path):
    subprocess.run(["mount", "-t", "ramfs", "ramfs", tmp_path], check=True)
    try:
        with pytest.warns(Notice, match="is memory, not a disk"):
            tier = FileTier(tmp_path)
        assert not tier.direct
        buffer = HostPool().take(4096)
        extent = tier.allocate(4096)
        buffer.fill_(3)
        tier.write(extent, buffer).wait()
        buffer.zero_()
        tier.read(extent, buffer).wait()
        assert buffer.sum() == 3 * 4096
        tier.close()
    finally:
        subprocess.run(["umount", tmp_path], check=True)
