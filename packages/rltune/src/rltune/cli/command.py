"""One command: its words as they may be written, and its help in sections."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from typer.core import TyperCommand

from rltune.cli.apart import TO_STDOUT, require_apart
from rltune.cli.console import say
from rltune.cli.old_spellings import modern

ADVANCED = "Advanced options"  # what nine of ten users never touch
WIDEST_NAME = 30  # of an option with its metavar; a longer one stands on a line of its own
_NO_BREAK = "\u00a0"
_SHORT_END = re.compile(r"\[[^\[]{,30}\]$")  # a default that fits one line should stand on one


class Command(TyperCommand):
    """A command that understands a lone --json and old spellings, and whose help shows the usual options first."""

    def parse_args(self, ctx: Any, args: Sequence[str]) -> list[str]:
        """Take the words apart."""
        words, told = modern(str(self.name), args)
        if told and not ctx.resilient_parsing:
            say(f"rltune: {told}")
        return super().parse_args(ctx, with_json_value(words) if self._json_may_name_a_file else words)

    def invoke(self, ctx: Any) -> Any:
        """Run the command, unless it would write what it reads, or two things into one file."""
        require_apart(ctx.params)
        return super().invoke(ctx)

    @property
    def _json_may_name_a_file(self) -> bool:
        return any("--json" in p.opts and not getattr(p, "is_flag", False) for p in self.params)

    def get_help(self, ctx: Any) -> str:
        """Write the help, with the spaces that no line was to end at as all others."""
        return str(super().get_help(ctx)).replace(_NO_BREAK, " ")

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Name the arguments as the help does."""
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options in sections, those that few need last."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], ADVANCED: []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                sections[_section(param)].append(_plain(*record))
        write_sections(formatter, sections)


def with_json_value(args: Sequence[str]) -> list[str]:
    """Put `-` behind a --json that is followed by an option or by nothing."""
    filled: list[str] = []
    for i, arg in enumerate(args):
        filled.append(arg)
        follows = args[i + 1] if i + 1 < len(args) else "--"
        if arg == "--json" and follows.startswith("-") and follows != TO_STDOUT:
            filled.append(TO_STDOUT)
    return filled


def write_sections(formatter: Any, sections: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    """Write lists of names and texts under their titles, all texts in one column."""
    widths = [len(name) for rows in sections.values() for name, _ in rows if len(name) <= WIDEST_NAME]
    for title, rows in sections.items():
        if rows:
            with formatter.section(title):
                formatter.write_dl([(name.ljust(max(widths)), text) for name, text in rows], col_max=WIDEST_NAME)


def _plain(name: str, text: str) -> tuple[str, str]:
    """Leave out what says nothing to a user: the type of an argument, the range of a number."""
    shown = re.sub(r"\[default: \(?(.*?)\)?(?:; [^;\]]*)?\]$", r"[default: \1]", text)
    shown = re.sub(r"  \[[0-9<=x>]+\]$", "", shown)
    return name.partition(" <")[0], _SHORT_END.sub(lambda end: end[0].replace(" ", _NO_BREAK), shown)


def _section(param: Any) -> str:
    return "Arguments" if param.param_type_name == "argument" else param.rich_help_panel or "Options"
