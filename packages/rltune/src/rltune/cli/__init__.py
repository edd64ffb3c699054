"""The command `rltune`. What it needs is imported in `main`, so that Ctrl-C is caught meanwhile, too."""

import sys
from typing import Any

INTERRUPTED = 130  # 128 + SIGINT, as shells have it


def main() -> None:
    """Run the command; whenever it is interrupted, that is one sentence."""
    try:
        from rltune.cli.application import run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("rltune: interrupted\n")
        raise SystemExit(INTERRUPTED) from None


def __getattr__(name: str) -> Any:
    """Import the application when somebody asks for it."""
    if name != "app":
        raise AttributeError(name)
    from rltune.cli.application import app

    return app
