"""What a user meets first: help, quickly, with examples; completion; and a word when the core must be compiled."""

import os
import re
import subprocess
import sys

import pytest
from typer.main import get_command

from rltune.cli import app
from rltune.cli import compile_notice as compiling
from rltune.cli import completion as complete
from rltune.cli.command import with_json_value
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.pipeline import BACKFILLS, HEADS
from rltune.estimate import NAMES
from rltune.placement.placers import NAMES as PLACEMENTS
from rltune.policy import policy_table

RLTUNE = [sys.executable, "-c", "from rltune.cli import main; main()"]
COMMANDS = [
    *(("trace", verb) for verb in ("info", "check", "convert", "synth", "anonymise")),
    ("cluster", "show"),
    ("cluster", "check"),
    ("simulate",),
    ("compare",),
    ("evaluate",),
    ("transfer",),
    ("policies",),
    ("train",),
    ("evolve",),
    ("model", "show"),
    ("model", "check"),
]


def test_help_is_quick():
    def once() -> float:
        before = os.times()
        subprocess.run([*RLTUNE, "--help"], check=True, capture_output=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    assert min(once() for _ in range(4)) < 0.6  # of CPU time, 0.2 s or so: others may be at work on this machine


def test_help_imports_nothing_heavy():
    look = (
        "import sys\nfrom rltune.cli import main\nsys.argv = ['rltune', *sys.argv[1:]]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(sorted({'numba', 'numpy', 'polars', 'jinja2'} & sys.modules.keys()))"
    )
    for words in (["--help"], ["compare", "--help"], ["--version"]):
        ran = subprocess.run([sys.executable, "-c", look, *words], check=True, capture_output=True, text=True)
        assert ran.stdout.splitlines()[-1] == "[]"


def test_an_interrupt_while_things_are_imported_is_a_sentence():
    """Whatever is being imported: the first import that the command makes is one of them."""
    program = (
        "import sys\nclass Interrupted:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'rltune.cli.application': raise KeyboardInterrupt\n"
        "from rltune.cli import main\nsys.meta_path.insert(0, Interrupted())\nmain()"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "rltune: interrupted\n")


def test_a_backfilling_that_is_not_known_is_asked_about(rltune):
    said = rltune("compare", "synth:philly,jobs=50", "-c", "philly-slice", "--pipeline", "saf + eassy")
    assert said.code == 2
    assert "no backfilling 'eassy' (in pipeline 'saf + eassy'); did you mean easy?" in said.err


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example(rltune, words):
    said = rltune(*words, "--help")
    assert said.code == 0
    assert "Examples:" in said.out
    assert f"rltune {' '.join(words)}" in said.out.partition("Examples:")[2]


def test_the_name_alone_is_a_short_start(rltune):
    """Three commands to try, each of which exists, and where there is more."""
    said = rltune()
    assert (said.code, said.err) == (0, "")
    tried = re.findall(r"^  rltune (\w+)", said.out, flags=re.MULTILINE)
    assert len(tried) == 3
    assert set(tried) <= get_command(app).commands.keys()
    assert "rltune --help" in said.out


@pytest.mark.parametrize("words", [("trace",), ("cluster",), ("model",)], ids=str)
def test_a_noun_alone_shows_its_verbs(rltune, words):
    assert "Commands:" in rltune(*words).out + rltune(*words).err


def test_policies_lists_all_and_says_how_to_bring_one_s_own(rltune):
    said = rltune("policies")
    assert all(policy.name in said.out for policy in policy_table())
    assert all(policy.about in said.out for policy in policy_table())
    assert "mine.py:score" in said.out


def test_help_names_every_choice(rltune):
    text = " ".join(rltune("compare", "--help").out.split())
    assert all(name in text for name in (*BACKFILLS, *HEADS, *(n.partition("[")[0] for n in NAMES)))


@pytest.mark.parametrize(
    ("completer", "begun", "wanted"),
    [
        (complete.policies, "multi", "multifactor"),
        (complete.policies, "fcfs,sa", "fcfs,saf"),
        (complete.backfills, "none,ea", "none,easy"),
        (complete.placements, "best", "best-fit"),
        (complete.presets, "philly-", "philly-slice"),
        (complete.heads, "g", "global"),
        (complete.estimators, "no", "noisy"),
        (complete.estimators, "bl", "blend:user+predicted"),
        (complete.metrics, "wait-p", "wait-p99"),
        (complete.formats, "rltune", "rltune-csv"),
        (complete.kinds, "he", "helios"),
        (complete.windows, "st", "steady:0.2"),
    ],
)
def test_names_complete(completer, begun, wanted):
    assert wanted in completer(begun)
    assert all(name.startswith(begun) for name in completer(begun))


def test_every_placement_completes():
    assert complete.placements("") == list(PLACEMENTS)


def test_the_shell_gets_completions():
    """As bash asks: the script of --install-completion sets these variables."""
    asks = {"_RLTUNE_COMPLETE": "complete_bash", "COMP_WORDS": "rltune cluster show philly-", "COMP_CWORD": "3"}
    ran = subprocess.run(RLTUNE, check=False, capture_output=True, text=True, env={**os.environ, **asks})
    assert ran.stdout.split() == ["philly-slice"]


def test_json_may_stand_alone_or_name_a_file():
    assert with_json_value(["--json"]) == ["--json", "-"]
    assert with_json_value(["--json", "--force"]) == ["--json", "-", "--force"]
    assert with_json_value(["--json", "a.json", "-p", "x"]) == ["--json", "a.json", "-p", "x"]
    assert with_json_value(["--json", "-"]) == ["--json", "-"]


def test_the_user_is_told_only_of_compiling_that_will_happen(tmp_path):
    code = (
        "from numba import njit\nfrom rltune.cli.compile_notice import is_compiled\n"
        "import sys; sys.path.insert(0, sys.argv[1])\nimport kernel\n"
        "print(is_compiled(kernel.twice)); kernel.twice(1)\n"
        "print(is_compiled(kernel.twice), is_compiled(kernel.twice, 'int'), is_compiled(kernel.twice, 'float'))"
    )
    (tmp_path / "kernel.py").write_text("from numba import njit\n@njit(cache=True)\ndef twice(x):\n    return 2 * x\n")
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    said = [
        subprocess.run(
            [sys.executable, "-c", code, tmp_path], check=True, capture_output=True, text=True, env=env
        ).stdout
        for _ in range(2)
    ]
    assert said == ["False\nTrue True False\n", "True\nTrue True False\n"]


def test_plain_python_needs_no_compiling():
    assert compiling.is_compiled(lambda: None)


def test_compiling_is_announced_once_and_done(monkeypatch, capsys):
    done = []
    monkeypatch.setattr(compiling, "is_compiled", lambda *_: False)
    monkeypatch.setattr(compiling, "_simulate_one_job", lambda **how: done.append(how))

    compiling.compile_core([parse_pipeline(lambda queue: queue.submit_s)])
    assert capsys.readouterr().err == compiling.NOTICE + "\n"
    assert done == [{"commit": False}, {"own_policy": True}]


def test_every_option_says_what_it_does():
    group = get_command(app)
    for command in (
        *(group.commands[name] for name in ("simulate", "compare", "evaluate", "transfer")),
        *group.commands["trace"].commands.values(),
    ):
        assert all(getattr(p, "help", "x") for p in command.params)


@pytest.mark.parametrize("width", [70, 80, 100, 200])
def test_a_narrow_terminal_loses_columns_not_digits(width):
    from rich.console import Console
    from rich.table import Table

    from rltune.cli.narrow_tables import fitted

    cells = {
        "pipeline": "fcfs + easy",
        "mean wait": "6.8 h",
        "p99 wait": "2.2 d",
        "slowdown": "231.4",
        "util.": "23.4 %",
        "vs fcfs": "+5.8 [2.5, 10.8] h",
        "ratio": "6.7 [5.4, 9.4]",
        "better in": "0/10",
        "gap to bound": "135.9 %",
    }
    table = Table(*cells, title="a title")
    table.add_row(*cells.values())
    console = Console(width=width)
    with console.capture() as capture:
        console.print(fitted(table, console))
    text = capture.get()
    assert "…" not in text
    shown = [cell for cell in cells.values() if cell in text]
    left_out = text.partition("Left out for want of width: ")[2].partition(".\n")[0]
    assert len(shown) + len([name for name in left_out.split(", ") if name]) == len(cells)
    assert (width < 120) == bool(left_out)
    assert {"fcfs + easy", "6.8 h", "2.2 d", "+5.8 [2.5, 10.8] h", "135.9 %"} <= set(shown)
