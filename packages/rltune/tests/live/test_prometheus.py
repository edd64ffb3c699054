import urllib.request

import pytest

from rltune.errors import InputError
from rltune.live.prometheus import Metrics


def test_calls_are_counted_up_and_never_twice():
    """A backend counts from its start; what was told already is not added again."""
    metrics = Metrics()
    metrics.calls({"squeue": 2})
    metrics.calls({"squeue": 5, "scontrol": 1})
    assert metrics.registry.get_sample_value("slurm_calls_total", {"command": "squeue"}) == 5
    assert metrics.registry.get_sample_value("slurm_calls_total", {"command": "scontrol"}) == 1


def test_a_port_serves_them():
    """On the loopback address only; a port in use is told."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = Metrics(port=port)
    server.set(waiting_jobs=7)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        assert "rltune_waiting_jobs 7.0" in answer.read().decode()
    with pytest.raises(InputError, match=f"cannot be served on 127.0.0.1:{port}"):
        Metrics(port=port)
    server.close()


def test_a_file_that_cannot_be_written_is_told(tmp_path):
    """A folder that does not exist."""
    with pytest.raises(InputError, match="metrics cannot be written"):
        Metrics(tmp_path / "none" / "m.prom").write()
