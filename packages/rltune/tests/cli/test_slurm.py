"""`rltune slurm` as a user runs it."""

import json
import subprocess

import pytest
from real_slurm import RELEASES, require_release, require_slurm

from rltune.lab.testbed import Testbed
from rltune.lab.testbed import debian_needs as needs


@pytest.fixture
def folder(tmp_path):
    require_slurm()
    yield tmp_path / "bed"
    if (tmp_path / "bed").exists():
        Testbed.open(tmp_path / "bed").down()


def test_a_testbed_goes_up_tells_of_itself_and_goes_down(rltune, folder, tmp_path):
    """The nodes are those of a TOML file, the setting it prints is the one that works, and it leaves nothing."""
    spec = tmp_path / "two.toml"
    spec.write_text('[[group]]\ncount = 2\ngpus = 3\ngpu_type = "T4"\n[[limit]]\nscope = "user"\nmax_gpus = 2\n')
    said = rltune("slurm", "testbed", "up", "--folder", folder, "--nodes", spec, "--clock", "x60")
    assert said.code == 0, said.err
    assert f"export SLURM_CONF={folder}/etc/slurm.conf" in said.out
    assert "not set up on the testbed: limits" in said.err
    told = json.loads(rltune("slurm", "testbed", "status", "--folder", folder, "--json").out)
    assert told["nodes"] == {"idle": 2}
    assert told["clock"] == "x60"
    assert set(told["daemons"].values()) == {"runs"}
    environment = {"SLURM_CONF": f"{folder}/etc/slurm.conf", "PATH": "/usr/bin:/bin"}
    gres = subprocess.run(["sinfo", "-h", "-o", "%G"], env=environment, capture_output=True, text=True, check=True)
    assert "gpu:t4:3" in gres.stdout
    assert rltune("slurm", "testbed", "down", "--folder", folder).code == 0
    assert not folder.exists()


def test_a_release_that_cannot_be_made_is_refused(rltune, folder):
    """By name, before anything is started."""
    for words in (("install", "19.05"), ("up", "--folder", folder, "--release", "19.05")):
        said = rltune("slurm", "testbed", *words)
        assert said.code == 2
        assert "no release 19.05 can be made here; 24.11 and 26.05 can" in said.err
    assert not folder.exists()


@pytest.mark.parametrize("release", RELEASES[1:])
def test_another_release_goes_up_and_the_settings_it_prints_work(rltune, folder, release):
    """Its commands come before the machine's own."""
    require_release(release)
    said = rltune("slurm", "testbed", "up", "--folder", folder, "--release", release)
    assert said.code == 0, said.err
    assert f"export PATH={folder}/bin:$PATH" in said.out
    environment = {"SLURM_CONF": f"{folder}/etc/slurm.conf", "PATH": f"{folder}/bin:/usr/bin:/bin"}
    told = subprocess.run(["sinfo", "--version"], env=environment, capture_output=True, text=True, check=True)
    assert release in told.stdout
    assert json.loads(rltune("slurm", "testbed", "status", "--folder", folder, "--json").out)["release"] == release
    assert rltune("slurm", "testbed", "down", "--folder", folder).code == 0


def test_status_tells_which_daemon_is_down(rltune, folder):
    """And does not wait for a slurmctld that cannot answer."""
    bed = Testbed.up(folder)
    bed.stop("slurmctld")
    assert "slurmctld is down" in rltune("slurm", "testbed", "status", "--folder", folder).out


def test_without_a_testbed(rltune, tmp_path):
    """One sentence."""
    for verb in ("down", "status"):
        said = rltune("slurm", "testbed", verb, "--folder", tmp_path)
        assert said.code == 2
        assert f"{tmp_path}: there is no testbed here" in said.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--clock", "fast"), "--clock should be x1 to x600, not 'fast'"),
        (("--clock", "x601"), "1 to 600 times as fast, not 601"),
        (("--nodes", "nosuch.toml"), "nosuch.toml: there is no such file"),
    ],
)
def test_mistakes(rltune, tmp_path, words, message):
    """Each is one sentence, and nothing is started."""
    said = rltune("slurm", "testbed", "up", "--folder", tmp_path / "bed", *words)
    assert (said.code, said.out) == (2, "")
    assert message in said.err
    assert not (tmp_path / "bed").exists()


def test_where_there_can_be_none_it_says_what_to_install(rltune, tmp_path, monkeypatch):
    """The sentence can be pasted into a shell."""
    monkeypatch.setattr(needs, "missing", lambda **_: "a testbed needs Debian's packages x: apt-get install x")
    said = rltune("slurm", "testbed", "up", "--folder", tmp_path / "bed")
    assert said.code == 2
    assert "apt-get install x" in said.err


def test_history_and_cluster_of_a_slurm_that_is_not_there(rltune, tmp_path, monkeypatch):
    """One sentence each, and no file."""
    monkeypatch.setenv("PATH", "/nowhere")
    said = rltune("cluster", "import-slurm", "-o", tmp_path / "c.toml")
    assert (said.code, said.out) == (2, "")
    assert "scontrol could not be started" in said.err
    said = rltune("trace", "import-slurm", "--from", "2026-01-01", "--to", "2026-01-02", "-o", tmp_path / "t.csv")
    assert (said.code, said.out) == (2, "")
    assert "sacct could not be started" in said.err
    assert not (tmp_path / "c.toml").exists()
    assert not (tmp_path / "t.csv").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--from", "yesterday"), "'yesterday' should be a date such as 2026-01-31"),
        (("--from", "2026-01-02", "--to", "2026-01-01"), "before it begins"),
        (("--from", "2026-01-01", "--slice", "day"), "'day' should be a number with m, h, d or w"),
        (("--from", "2026-01-01", "-o", "x.txt"), "the name should end in .csv, .csv.gz, .parquet"),
    ],
)
def test_mistakes_in_an_import(rltune, tmp_path, words, message):
    """Each is told before slurmdbd is asked, and nothing is made."""
    said = rltune("trace", "import-slurm", "-o", tmp_path / "t.csv", *words)
    assert (said.code, said.out) == (2, "")
    assert message in said.err
    assert list(tmp_path.iterdir()) == []


def test_a_cluster_from_a_running_slurm(rltune, folder, tmp_path, monkeypatch):
    """What is written can be simulated on."""
    bed = Testbed.up(folder)
    monkeypatch.setenv("SLURM_CONF", bed.environment["SLURM_CONF"])
    said = rltune("cluster", "import-slurm", "-o", tmp_path / "c.toml")
    assert said.code == 0, said.err
    assert "is a cluster of 5 nodes, 13 GPUs, 3 groups, 2 VCs" in said.out
    assert "exists already" in rltune("cluster", "import-slurm", "-o", tmp_path / "c.toml").err
