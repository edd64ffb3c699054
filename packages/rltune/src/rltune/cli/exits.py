"""How commands end: a user's mistake is one sentence and exit code 2, an interrupt is 130, neither is a traceback."""

from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from rltune.errors import InputError

MISUSE = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells have it
TO_STDOUT = "-"


class Mannered(TyperGroup):
    """A group of commands that ends as this module says."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        from rltune.cli.console import say

        try:
            return super().invoke(ctx)
        except InputError as error:
            say(f"rltune: {' '.join(str(error).split())}")
            raise typer.Exit(MISUSE) from None
        except KeyboardInterrupt:
            say("rltune: interrupted")
            raise typer.Exit(INTERRUPTED) from None


class JsonMayNameAFile(TyperCommand):
    """A command whose --json stands alone, to print, or before a file, to write."""

    def parse_args(self, ctx: Any, args: Sequence[str]) -> list[str]:
        """Return a lone --json the value that stands for stdout."""
        return super().parse_args(ctx, with_json_value(args))


def with_json_value(args: Sequence[str]) -> list[str]:
    """Put `-` behind a --json that is followed by an option or by nothing."""
    filled: list[str] = []
    for i, arg in enumerate(args):
        filled.append(arg)
        follows = args[i + 1] if i + 1 < len(args) else "--"
        if arg == "--json" and follows.startswith("-") and follows != TO_STDOUT:
            filled.append(TO_STDOUT)
    return filled
