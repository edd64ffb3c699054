"""Settings of a training from a TOML file and from `--set KEY=VALUE`, for every field that no option stands for."""

import json
import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from rltune.cli.parsing import split, widths
from rltune.errors import InputError, unknown
from rltune.toml_file import toml_text

S = TypeVar("S")
Values = dict[str, Any]  # by name of the field; those of settings in settings are a dictionary in it
# Numbers have to be 0 or more, and finite; these have to be larger.
AT_LEAST = {
    "epochs": 1,
    "windows": 1,
    "size": 2,
    "pool": 1,
    "held_windows": 1,
    "held_size": 2,
    "held_every": 1,
    "ppo.passes": 1,
    "ppo.minibatches": 1,
    "evolve.tried": 4,
    "evolve.windows": 1,
    "evolve.every": 1,
}


def read_settings(file: Path | None, words: Iterable[str] = ()) -> Values:
    """Read a settings file, if there is one, and put what `--set` says over it."""
    values = _read_file(file) if file else {}
    for word in words:
        values = merged(values, _read_word(word))
    return values


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> Values:
    """Put values over others, table by table; None takes nothing's place."""
    made = dict(below)
    for key, value in above.items():
        if isinstance(value, Mapping) and isinstance(made.get(key, {}), Mapping):
            made[key] = merged(made.get(key, {}), value)
        elif value is not None:
            made[key] = value
    return made


def with_values(settings: S, values: Mapping[str, Any], table: str = "", more: tuple[str, ...] = ()) -> S:
    """Return the settings with these values in place of their own; `more` names keys that the caller reads itself."""
    known = field_names(settings)
    for key in values:
        if key not in known:
            raise unknown("setting", f"{table}{key}", [f"{table}{name}" for name in (*known, *more)])
    given = {key: _value(f"{table}{key}", value, getattr(settings, key)) for key, value in values.items()}
    return replace(settings, **given)  # type: ignore[type-var]


def field_names(settings: Any) -> tuple[str, ...]:
    """Name the fields that a file may set. Worker counts are an option, since no result depends on them."""
    return tuple(field.name for field in fields(settings) if field.name != "threads")


def as_toml(settings: Any, **more: str) -> Iterator[str]:
    """Write settings as a file that can be read back, line by line; tables come last, as TOML wants it."""
    own = {name: getattr(settings, name) for name in field_names(settings)} | more
    for name, value in own.items():
        if not is_dataclass(value):
            yield f"{name} = {_toml(value)}"
    for name, value in own.items():
        if is_dataclass(value):
            yield from ("", f"[{name}]", *as_toml(value))


def _toml(value: Any) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def _read_file(path: Path) -> Values:
    try:
        return tomllib.loads(toml_text(path))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: is no TOML: {error}") from None


def _read_word(word: str) -> Values:
    key, equals, text = word.partition("=")
    if not equals or not key:
        raise InputError(f"--set {word!r} is not understood; write KEY=VALUE, such as ppo.entropy=0.01")
    value: Any = _literal(text)
    for part in reversed(key.strip().split(".")):
        value = {part: value}
    return dict(value)


def _literal(text: str) -> Any:
    """Read a number, a truth value or a list; everything else is text as it stands."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _value(key: str, value: Any, default: Any) -> Any:
    """Read a value as the kind of thing that its default is."""
    if is_dataclass(default) and isinstance(value, Mapping):
        return with_values(default, value, f"{key}.")
    if isinstance(default, tuple):
        return _several(key, value, default)
    if isinstance(default, bool) or not isinstance(default, int | float):
        return _same_type(key, value, default)
    return _number(key, value, default)


def _several(key: str, value: Any, default: tuple[Any, ...]) -> tuple[Any, ...]:
    numbers = isinstance(default[0], int)
    if isinstance(value, str):
        return widths(value) if numbers else tuple(split(value))
    if isinstance(value, list) and numbers:
        return widths("x".join(map(str, value)))
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return tuple(value)
    raise _wrong(key, value, default)


def _same_type(key: str, value: Any, default: Any) -> Any:
    if type(value) is not type(default):
        raise _wrong(key, value, default)
    return value


def _number(key: str, value: Any, default: float) -> float:
    kinds = int if isinstance(default, int) else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not math.isfinite(value):
        raise _wrong(key, value, default)
    least = AT_LEAST.get(key, 0)
    if value < least:
        raise InputError(f"setting {key} should be {least} or more, not {value}")
    return type(default)(value)


def _wrong(key: str, value: Any, default: Any) -> InputError:
    example = "a table" if is_dataclass(default) else f"something like {_toml(default)}"
    return InputError(f"setting {key} should be {example}, not {json.dumps(value, default=str)}")
