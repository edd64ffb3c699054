"""The report on a machine: right where all is well, and without a traceback where it is not."""

import json

import pytest
import torch

from tencache import cli
from tencache.bench import doctor
from tencache.bench.doctor import examine
from tencache.runtime.memory.link import StreamLink


def verdicts(report):
    return {finding.check: finding.verdict for finding in report.findings}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here: it is examined instead")
def test_without_a_gpu_the_report_says_what_it_could_not_check(capsys, tmp_path):
    assert cli.main(["doctor", "--small", "--json", "--nvme", str(tmp_path)]) == 0
    report = json.loads(capsys.readouterr().out)
    found = {finding["check"]: finding["verdict"] for finding in report["findings"]}
    assert {name for name, verdict in found.items() if verdict == "ok"} == {"machine", "file", "identity", "speed"}
    assert {name for name, verdict in found.items() if verdict == "not checked"} == {
        "device",
        "driver",
        "pinned",
        "link",
    }
    assert report["healthy"]


def test_a_real_device_is_examined_whole(unstarted):
    report = examine("standin", small=True)
    assert str(report).endswith("on standin:0: 0 bad, 2 not checked")
    assert {name for name, verdict in verdicts(report).items() if verdict == "not checked"} == {"driver", "file"}
    assert next(one for one in report.findings if one.check == "link").numbers["up_bytes_per_s"] == pytest.approx(1e9)


def test_wrong_bits_are_found(unstarted, monkeypatch):
    monkeypatch.setattr(StreamLink, "fence", lambda _: ())
    report = examine("standin", small=True)
    assert not report.healthy
    assert "bad" in {verdict for name, verdict in verdicts(report).items() if name.startswith("bits: ")}


def test_what_fails_is_a_finding_and_not_a_traceback(capsys, monkeypatch):
    def fail(*_):
        raise RuntimeError("CUDA error: out of memory\nsome more lines")

    monkeypatch.setattr(doctor, "runs_alike", fail)
    monkeypatch.setattr(doctor, "SimLink", fail)
    assert cli.main(["doctor", "--small", "--device", "sim"]) == cli.UNHEALTHY
    out, err = capsys.readouterr()
    assert "bad          link       RuntimeError: CUDA error: out of memory\n" in out
    assert out.count("bad          bits: ") == len(doctor.WAYS)
    assert err == ""


@pytest.mark.parametrize("device", ["quantum", "meta", "cuda"])
def test_a_device_that_is_not_there_is_one_sentence(capsys, device):
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("it is there")
    assert cli.main(["doctor", "--device", device]) in {cli.MISUSE, cli.DOES_NOT_FIT}
    assert len(capsys.readouterr().err.splitlines()) == 1
