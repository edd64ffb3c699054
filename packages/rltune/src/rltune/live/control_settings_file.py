"""A controller's settings: defaults, overridden by control.toml, overridden by the command line."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rltune.errors import InputError
from rltune.live.control_settings import ControlSettings
from rltune.toml_file import toml_text
from rltune.toml_mistakes import told_mistake


def load_settings(path: Path | None, overrides: dict[str, Any] | None = None) -> ControlSettings:
    """Read control.toml, if there is one, and put the command line's words on top."""
    table = _merged(_read(path) if path else {}, overrides or {})
    try:
        return ControlSettings.model_validate(table)
    except ValidationError as error:
        raise InputError(f"{path or 'control'}: {told_mistake(error, ControlSettings)}") from None


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(toml_text(path))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not valid TOML: {error}") from None


def _merged(table: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    """Put nested overrides on top of a table, leaving None out."""
    result = dict(table)
    for key, value in overrides.items():
        if isinstance(value, dict):
            result[key] = _merged(result.get(key, {}), value)
        elif value is not None:
            result[key] = value
    return result
