"""How commands end: a user's mistake is one sentence and exit code 2, an interrupt is 130, neither is a traceback."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TextIO

import typer
from typer.core import TyperGroup

from rltune.cli import INTERRUPTED
from rltune.cli.command import write_sections
from rltune.errors import InputError, TooManyRefusedError

COMMANDS, HISTORY, JUDGE, LEARN, RUN = SECTIONS = (
    "Commands",
    "History and cluster",
    "Compare policies",
    "Learn a policy",
    "Run a cluster",
)
NEAR = 0.7  # of options, which all begin with two dashes and so are alike to begin with
MISUSE = 2
REFUSED = 3  # too many jobs that the cluster can never run
READER_GONE = 1
_PLAINLY = (  # for what typer says of numbers
    (r": Input should be greater than or equal to (\S+)", r": it should be \1 or more"),
    (r": Input should be less than or equal to (\S+)", r": it should be \1 or less"),
    (r": Input should be a valid integer,.*", ": it should be a whole number"),
    (r": Input should be a valid number,.*", ": it should be a number"),
)
# Wrong options and arguments. Typer ships its own copy of click and gives this class no public name.
UsageError: Any = typer.BadParameter.__base__


class Mannered(TyperGroup):
    """A group of commands that ends as this module says."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Read the words before the command's name."""
        with _one_sentence():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with _one_sentence():
            return super().invoke(ctx)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002  as click calls it
        """List the commands in sections."""
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in SECTIONS}
        limit = formatter.width - 6 - max(map(len, self.commands))
        for name, command in self.commands.items():
            title = getattr(command, "rich_help_panel", None) or COMMANDS
            sections[title].append((name, command.get_short_help_str(limit)))
        write_sections(formatter, sections)


@contextmanager
def _one_sentence() -> Iterator[None]:
    from rltune.cli.console import say

    try:
        yield
    except InputError as error:
        say(f"rltune: {' '.join(str(error).split())}")
        raise typer.Exit(REFUSED if isinstance(error, TooManyRefusedError) else MISUSE) from None
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # a noun alone shows its verbs
            raise
        say(f"rltune: {_usage(error)}")
        raise typer.Exit(MISUSE) from None
    except KeyboardInterrupt:
        say("rltune: interrupted")
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def whole_output() -> Iterator[None]:
    """Make sure that all results have left; if standard output takes no more, that is a sentence and an exit code.

    Every file has its own sentence where it is written, so an OSError that comes this far is standard output's.
    """
    from rltune.cli.console import say

    ended = SystemExit(0)
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    try:
        try:
            yield
        except SystemExit as told:
            ended = told
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough, as `head` has
        _leave_unsaid()
        sys.exit(READER_GONE)
    except OSError as error:
        _leave_unsaid()
        say(f"rltune: standard output: cannot be written: {error.strerror or error}")
        sys.exit(MISUSE)
    raise ended


def _nowhere() -> TextIO:
    """Return what takes the place of a stream that was closed before the program began (`>&-`)."""
    return Path(os.devnull).open("w", encoding="utf-8")


def _leave_unsaid() -> None:
    """Send what is still buffered nowhere, so that Python does not try again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage(error: Any) -> str:
    """Print what was wrong with the words, and where their meaning is told."""
    offered = getattr(error, "possibilities", None) or ()
    near = get_close_matches(getattr(error, "option_name", ""), offered, n=1, cutoff=NEAR)
    text = " ".join((error.message if offered else error.format_message()).split()).rstrip(".")
    for said, plainly in _PLAINLY:
        text = re.sub(said, plainly, text)
    meant = f"; did you mean {near[0]}?" if near else "" if text.endswith("?") else "."
    more = f" See {error.ctx.command_path} --help" if error.ctx else ""
    return f"{text[:1].lower()}{text[1:]}{meant}{more}"
