"""One loader for all that users bring: from a file, or from an installed package."""

import pickle
import subprocess
import sys

import pytest
from own_package import install

from rltune.errors import InputError
from rltune.plugins import ESTIMATORS, FORMATS, METRICS, POLICIES, changed_ns, short_name

KINDS = [POLICIES, ESTIMATORS, METRICS, FORMATS]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.group)
def test_a_name_in_a_file_is_found(kind, tmp_path):
    (tmp_path / "mine.py").write_text("thing = object()\n")
    assert type(kind.find(f"{tmp_path / 'mine.py'}:thing")) is object


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.group)
def test_an_entry_point_is_found_and_listed(kind, tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, kind.group, "theirs", "thing = 42\n", "thing")
    assert kind.find("theirs") == 42
    assert "theirs" in kind.names()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.group)
def test_an_entry_point_of_another_kind_is_not_taken(kind, tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "rltune.others", "theirs", "thing = 42\n", "thing")
    assert kind.find("theirs") is None


def test_what_is_wrong_is_said_in_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "broken.py").write_text("import nothing_of_this_name\n")
    (tmp_path / "mine.py").write_text("")
    install(tmp_path, monkeypatch, "rltune.metrics", "theirs", "", "absent")
    for spec, why in (
        (f"{tmp_path}/absent.py:x", "there is no file"),
        (f"{tmp_path}/mine.py:x", "holds no 'x'"),
        (f"{tmp_path}/broken.py:x", "cannot be loaded: ModuleNotFoundError"),
        ("theirs", "own_rltune_metrics:absent cannot be loaded: AttributeError"),
    ):
        with pytest.raises(InputError, match=f"^metric '.*': .*{why}"):
            METRICS.find(spec)


def test_a_file_is_loaded_anew_at_every_call(tmp_path):
    """What a module keeps must not go from one run to the next."""
    (tmp_path / "mine.py").write_text("seen = []\n")
    METRICS.find(f"{tmp_path}/mine.py:seen").append(1)
    assert METRICS.find(f"{tmp_path}/mine.py:seen") == []


def test_an_object_of_a_file_s_class_reaches_another_process(tmp_path):
    """Though the file was loaded again in the meantime."""
    (tmp_path / "mine.py").write_text("class Thing:\n    value = 7\n")
    spec = f"{tmp_path}/mine.py:Thing"
    packed = pickle.dumps([METRICS.find(spec)(), METRICS.find(spec)()])
    look = "import pickle, sys; print([thing.value for thing in pickle.loads(bytes.fromhex(sys.argv[1]))])"
    ran = subprocess.run([sys.executable, "-c", look, packed.hex()], check=True, capture_output=True, text=True)
    assert ran.stdout.strip() == "[7, 7]"


def test_a_file_is_shown_without_its_folder():
    assert short_name("/a/b/mine.py:score") == "mine:score"
    assert short_name("theirs") == "theirs"


def test_a_change_of_the_file_is_seen(tmp_path):
    (tmp_path / "mine.py").write_text("")
    assert changed_ns(f"{tmp_path}/mine.py:x") == (tmp_path / "mine.py").stat().st_mtime_ns
    assert changed_ns("theirs") == 0
