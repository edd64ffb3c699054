"""No command writes a file twice, or one that it reads."""

import os
from pathlib import Path
from types import NoneType
from typing import get_args, get_type_hints

import pytest
from typer.main import get_command

from rltune.cli import app
from rltune.cli.apart import WRITTEN


def leaves(group, path=()):
    """Walk over all commands."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from leaves(command, (*path, name))
        else:
            yield (*path, name), command


def kind_of(command, param):
    """Return the types that a command's function takes for a parameter."""
    hint = get_type_hints(command.callback).get(param.name, NoneType)
    return set(get_args(hint) or (hint,))


# Parameters that name a file or folder and are only read, or in which things gather.
READ = {"cluster", "config", "folder", "init", "journal", "settings", "tensorboard", "testbed", "tokens", "training"}


def test_every_file_that_a_command_may_write_is_known():
    paths = {
        p.name
        for path, command in leaves(get_command(app))
        for p in command.params
        if Path in kind_of(command, p) and path != ("slurm", "experiment")
    }
    assert paths - READ <= set(WRITTEN)


@pytest.fixture
def files(trace, cluster, tmp_path):
    (tmp_path / "mine.py").write_text("def score(queue):\n    return queue.submit_s\n")
    os.link(trace, tmp_path / "hard.csv")
    return {"trace": trace, "cluster": cluster, "folder": tmp_path}


@pytest.mark.parametrize(
    "words",
    [
        ("simulate", "{trace}", "-c", "{cluster}", "--json", "{folder}/x", "--report", "{folder}/x"),
        ("simulate", "{trace}", "-c", "{cluster}", "--json", "{folder}/x", "--report", "{folder}/d/../x"),
        ("simulate", "{trace}", "-c", "{cluster}", "--json", "{folder}/x.csv", "--jobs-file", "{folder}/x.csv"),
        ("compare", "{trace}", "-c", "{cluster}", "-p", "saf,{folder}/mine.py:score", "--report", "{folder}/mine.py"),
        ("compare", "{trace}", "-c", "{cluster}", "--report", "{cluster}"),
        ("trace", "convert", "{trace}", "-o", "{folder}/hard.csv"),
        ("transfer", "{trace}", "{folder}/hard.csv", "-c", "{cluster}", "-p", "saf", "--json", "{cluster}"),
        ("cluster", "import", "{cluster}", "-o", "{cluster}"),
        ("calibrate", "{trace}", "-c", "{cluster}", "--write", "{cluster}"),
        ("calibrate", "{trace}", "-c", "{cluster}", "--write", "{folder}/x", "--report", "{folder}/x"),
        ("tune", "{trace}", "-c", "{cluster}", "--runs", "{trace}"),
        ("tune", "{trace}", "-c", "{cluster}", "--runs", "{folder}/x", "--out", "{folder}/x"),
        ("explain", "1", "-t", "{trace}", "-c", "{cluster}", "--at", "1", "--json", "{trace}"),
    ],
)
def test_it_is_refused_before_anything_is_read(rltune, words, files):
    (files["folder"] / "d").mkdir()
    before = {file: file.read_bytes() for file in files["folder"].iterdir() if file.is_file()}
    said = rltune(*(word.format(**files) for word in words), "--force")
    assert (said.code, said.out) == (2, "")
    assert "both name" in said.err or "is what is read" in said.err
    assert {file: file.read_bytes() for file in files["folder"].iterdir() if file.is_file()} == before


def test_a_journal_that_will_be_made_is_no_place_for_advice(rltune, tmp_path):
    said = rltune("control", "--once", "--journal", tmp_path / "x.db", "--advice", tmp_path / "x.db")
    assert (said.code, "cannot be written as well" in said.err) == (2, True)


def test_a_device_may_take_two(rltune, files):
    words = ("simulate", files["trace"], "-c", files["cluster"], "-p", "fcfs", "--json", "/dev/null", "--report")
    assert rltune(*words, "/dev/null").code == 0


def test_jobs_are_written_as_the_name_says(rltune, files):
    words = ("simulate", files["trace"], "-c", files["cluster"], "-p", "fcfs", "--jobs-file")
    assert rltune(*words, files["folder"] / "jobs.csv").code == 0
    assert (files["folder"] / "jobs.csv").read_text().startswith('"pipeline","window","id","user"')
    said = rltune(*words, files["folder"] / "jobs.xlsx")
    assert (said.code, "the name should end in .csv, .csv.gz, .parquet" in said.err) == (2, True)
