"""The command line is one language: a name means the same thing in every command, and old spellings say the new one."""

import json
from collections import defaultdict
from types import NoneType
from typing import get_args, get_type_hints

import pytest
from typer.main import get_command

from rltune.cli import app
from rltune.cli.command import ADVANCED
from rltune.cli.evolve_command import evolve_plan
from rltune.cli.old_spellings import OLD, USUAL_WINDOWS, modern
from rltune.learn.train_settings import TrainSettings

TRACE_AND_CLUSTER = ("simulate", "compare", "evaluate", "transfer", "train", "evolve")
OTHERS = {"control", "journal", "slurm"}  # a running cluster has no trace and no windows
OF_A_MOMENT = {"explain", "forecast", "whatif"}  # of which a history is one of several sources: --trace


def leaves(group, path=()):
    """Walk over all commands that replay, judge, learn or look."""
    for name, command in group.commands.items():
        if path or name not in OTHERS:
            if hasattr(command, "commands"):
                yield from leaves(command, (*path, name))
            else:
                yield (*path, name), command


COMMANDS = dict(leaves(get_command(app)))


def arguments(command):
    return [p for p in command.params if p.param_type_name == "argument"]


def options(command):
    return [p for p in command.params if p.param_type_name == "option"]


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_a_trace_is_an_argument_called_trace_and_comes_first(path):
    """Behind a model only where the command is about models."""
    named = [p for p in COMMANDS[path].params if p.name in {"trace", "traces"}]
    assert [p.metavar for p in named] in ([], ["TRACE"])
    if path[0] in OF_A_MOMENT:
        assert [sorted(p.opts, key=len) for p in named] == [["-t", "--trace"]]
        return
    assert all(p.param_type_name == "argument" for p in named)
    if named and path[0] != "model":
        assert arguments(COMMANDS[path])[0] is named[0]


@pytest.mark.parametrize("name", TRACE_AND_CLUSTER)
def test_whatever_runs_jobs_takes_a_trace_and_a_cluster(name):
    command = COMMANDS[(name,)]
    assert [p.metavar for p in arguments(command)] == ["TRACE"]
    assert ["-c", "--cluster"] in [sorted(p.opts, key=len) for p in options(command) if p.required]


def kind_of(command, option) -> frozenset[type]:
    """Find what the function behind a command gets for an option, whether it may be left out or given again."""
    hint = get_type_hints(command.callback)[option.name]
    return frozenset(get_args(hint) or (hint,)) - {NoneType, list[str]} | (
        {str} if list[str] in get_args(hint) else set()
    )


def test_an_option_has_one_meaning_everywhere():
    """The same short form and the same kind of value under the same name."""
    kinds = defaultdict(set)
    for command in COMMANDS.values():
        for option in options(command):
            long = next(name for name in option.opts if name.startswith("--"))
            short = tuple(name for name in option.opts if not name.startswith("--"))
            kinds[long].add((short, kind_of(command, option), option.is_flag))
    several = {name: found for name, found in kinds.items() if len(found) > 1}
    assert several == {}


def test_every_value_has_a_name_in_the_help():
    valued = [(path, p) for path, c in COMMANDS.items() for p in options(c) if not p.is_flag and p.name != "help"]
    assert [(path, p.opts) for path, p in valued if not p.metavar] == []


def test_a_short_form_stands_for_one_option():
    long_of = defaultdict(set)
    for command in COMMANDS.values():
        for option in options(command):
            for short in (name for name in option.opts if not name.startswith("--")):
                long_of[short] |= {name for name in option.opts if name.startswith("--")}
    assert {short: names for short, names in long_of.items() if len(names) > 1} == {}


@pytest.mark.parametrize(
    ("option", "commands"),
    [
        ("--windows", {"compare", "evaluate", "transfer", "train", "evolve"}),
        ("--workers", {"compare", "evaluate", "transfer", "train", "evolve"}),
        ("--policy", {"simulate", "compare", "evaluate", "transfer"}),
        ("--pipeline", {"simulate", "compare", "evaluate"}),
        ("--backfill", set(TRACE_AND_CLUSTER)),
        ("--estimator", set(TRACE_AND_CLUSTER)),
        ("--seed", set(TRACE_AND_CLUSTER)),
        ("--settings", {"train", "evolve"}),
    ],
)
def test_what_commands_share_is_named_alike(option, commands):
    having = {path[0] for path, command in COMMANDS.items() if any(option in p.opts for p in options(command))}
    assert having >= commands


def test_no_old_spelling_is_an_option_of_its_command():
    for name, old in OLD.items():
        shown = {word for p in COMMANDS[(name,)].params for word in p.opts}
        assert shown & old.keys() == set()


def test_defaults_in_the_help_are_those_of_the_settings():
    """Options of train and evolve have none of their own, so that a settings file can be heard."""
    trained, evolved = TrainSettings(), evolve_plan({}, {}, None, workers=1)
    cases = {"train": (trained, trained), "evolve": (evolved, evolved.evolve)}
    for name, (settings, steps) in cases.items():
        shown = {p.name: p.show_default for p in options(COMMANDS[(name,)]) if isinstance(p.show_default, str)}
        windows = f"{steps.windows}x{settings.size}:contended={settings.contended_s:g}"
        assert shown.pop("windows") == windows
        assert shown.pop("estimator") == ",".join(settings.estimators)
        assert shown.pop("seed") == str(steps.seed)
        for option, told in shown.items():
            assert told == str(getattr(settings if hasattr(settings, option) else steps, option))


def test_what_few_need_comes_last_in_the_help(rltune):
    text = rltune("train", "--help").out
    usual, _, advanced = text.partition(f"{ADVANCED}:")
    assert "--epochs" in usual
    assert "--tensorboard" in advanced
    assert len([p for p in options(COMMANDS[("train",)]) if not p.hidden]) <= 24


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_fits_the_terminal(rltune, monkeypatch, path, width):
    """Examples are whole lines, to be copied."""
    monkeypatch.setenv("COLUMNS", str(width))
    text = rltune(*path, "--help").out.partition("Examples:")[0]
    assert max(map(len, text.splitlines())) <= width
    assert "<str>" not in text
    assert "x>=" not in text


@pytest.mark.parametrize(
    ("command", "old", "new"),
    [
        ("simulate", "-t a.csv -c c --jobs o.parquet", "a.csv -c c --jobs-file o.parquet"),
        ("compare", "--trace=a.csv -c c --policies saf", "a.csv -c c --policy saf"),
        ("compare", "-ta.csv -c c", "a.csv -c c"),
        ("evaluate", "a -c c --windows 256 --every 8 --contended 60", "a -c c --windows 256:every=8:contended=60"),
        ("evaluate", "a -c c --every 256 -j2", "--windows 1024:every=256 a -c c --workers 2"),
        ("evaluate", "a -c c -w 256 --jobs 2", "a -c c -w 256 --workers 2"),
        ("transfer", "--models m --traces a,b --clusters c", "a b --policy m --cluster c"),
        ("transfer", "-m m --traces synth:a,jobs=5,b -c c", "synth:a,jobs=5 b --policy m -c c"),
        ("train", "a -w 40 --size 64 --contended 9", "a --windows 40x64:contended=9"),
        ("train", "a --contended 9 --threads 2", "--windows 100x256:contended=9 a --workers 2"),
        ("train", "a --rate 0.1 --hidden 8x8", "a --set ppo.actor_rate=0.1 --set hidden=8x8"),
        ("convert", "--format csv a.csv b.csv -f", "--format csv a.csv --out b.csv -f"),
        ("synth", "philly --jobs 9 -f b.csv", "philly --jobs 9 -f --out b.csv"),
        ("evolve", "a --windows 15 --tried 9", "a --windows 15x1024 --set evolve.tried=9"),
    ],
)
def test_an_old_spelling_is_understood_and_said(command, old, new):
    words, told = modern(command, old.split())
    assert words == new.split()
    assert told.startswith("write ")


@pytest.mark.parametrize("command", [*USUAL_WINDOWS, "simulate", "compare"])
def test_words_in_the_new_spelling_are_left_alone(command):
    words = ["-w", "20x64:contended=60", "-c", "c.toml", "--workers", "2", "--", "a.csv"]
    assert modern(command, words) == (words, "")
    assert modern("convert", ["a.csv", "-o", "b.csv", "--force"])[1] == ""
    assert modern(command, ["--", "--trace", "x"]) == (["--", "--trace", "x"], "")
    assert modern(command, ["a.csv", "--trace"])[0] == ["a.csv", "--trace"]


def test_an_old_spelling_works_and_is_told_once(rltune, trace, cluster):
    said = rltune("simulate", "-t", trace, "-c", cluster, "--json")
    assert said.code == 0
    notices = [line for line in said.err.splitlines() if line.startswith("rltune: write")]
    assert notices == [f"rltune: write {trace} for -t {trace}; the old spelling ends with the next release"]


def test_a_pipeline_can_be_named_as_a_whole(rltune, trace, cluster):
    whole = ("--pipeline", "sjf+guard:24h + easy, spread")
    settings = json.loads(rltune("simulate", trace, "-c", cluster, *whole, "--json").out)["settings"]
    assert (settings["policy"], settings["backfill"], settings["placement"]) == ("sjf+guard:24h", "easy", "spread")
    words = ("compare", trace, "-c", cluster, "--pipeline", "saf + easy", "--pipeline", "fcfs, spread", "--json")
    assert [s["label"] for s in json.loads(rltune(*words).out)["standings"]] == ["saf + easy", "fcfs, spread"]
    more = json.loads(rltune(*words, "-p", "fcfs", "-b", "none").out)["standings"]
    assert [s["label"] for s in more] == ["fcfs", "saf + easy", "fcfs, spread"]


@pytest.mark.parametrize("words", [("trace", "info"), ("trace", "check")], ids=" ".join)
def test_json_goes_into_a_file_in_every_command(rltune, words, trace, tmp_path):
    said = rltune(*words, trace, "--json", tmp_path / "r.json")
    assert said.out.endswith(f"JSON: {tmp_path / 'r.json'}\n")
    assert (tmp_path / "r.json").read_text().startswith("{")
    assert rltune(*words, trace, "--json", tmp_path / "r.json").code == 2


def test_a_second_history_is_refused_where_the_output_is_named():
    """It would be left out without a word of it: only a lone second argument is the file to write, as it once was."""
    words = ["history.txt", "second.txt", "--out", "both.csv"]
    assert modern("convert", words) == (words, "")
    assert modern("convert", ["history.txt", "out.csv"])[0] == ["history.txt", "--out", "out.csv"]
