"""The text of a file that should be TOML; apart from its checks, so that giving back loads none of them."""

from __future__ import annotations

from pathlib import Path

from rltune.errors import InputError


def toml_text(path: Path) -> str:
    """Return the text of a file that should be TOML; editors may put a mark of the encoding before it."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not text in UTF-8") from None
