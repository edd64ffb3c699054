"""Mistakes in a TOML file in a reader's words: which key, what stands there, and what could."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from rltune.errors import unknown

_WANTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "text in quotation marks",
    "bool_type": "true or false",
    "greater_than": "more than {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "less than {lt}",
    "less_than_equal": "{le:,} or less",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "tuple_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}


def told_mistake(error: ValidationError, model: type[BaseModel]) -> str:
    """Return the first mistake in one sentence, and how many more there are."""
    first = error.errors()[0]
    *tables, key = first["loc"] or ("",)
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{_told(first, model, tables, str(key))}{more}"


def _told(problem: Any, model: type[BaseModel], tables: Sequence[str | int], key: str) -> str:
    kind, value = problem["type"], problem["input"]
    where = f"in {_place(tables)}" if tables else ""
    if kind == "extra_forbidden":
        return str(unknown("key", key, _keys(model, tables), where))
    if kind == "missing":
        return f"{key} is missing {where}".rstrip()
    if kind == "value_error":
        whole = _place([*tables, key]) if isinstance(value, dict) else f"{key} {where}".strip()
        said = str(problem["ctx"]["error"])
        return f"{whole}: {said}" if whole else said
    if isinstance(value, dict) and kind == "tuple_type":
        return f"{key} is written with two brackets on each side, [[{key}]], for every one of them"
    wanted = _WANTED.get(kind, "").format(**problem.get("ctx", {})) or problem["msg"].lower()
    if key.isdigit() and tables:  # a member of a list
        *tables, name = tables
        key, where = f"value {int(key) + 1} of {name}", f"in {_place(tables)}" if tables else ""
    return f"{key} {where}".rstrip() + f" should be {wanted}, not {_as_written(value)}"


def _place(loc: Sequence[str | int]) -> str:
    """Name a table of the file as it is written there; the first [[group]] is number 1."""
    parts: list[str] = []
    for part in loc:
        if isinstance(part, int) or part.isdigit():
            parts[-1] = f"[[{parts[-1]}]] number {int(part) + 1}"
        elif part:
            parts.append(part)
    path = ".".join(parts)
    return path if path.startswith("[[") else f"[{path}]"


def _keys(model: type[BaseModel], tables: Sequence[str | int]) -> tuple[str, ...]:
    """Return the keys that a table of the file may have."""
    for name in tables:
        field = model.model_fields.get(str(name))
        if field is not None:
            model = next(_models(field.annotation), model)
    return tuple(model.model_fields)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def _as_written(value: Any) -> str:
    """Write a value as TOML has it: true, not True."""
    return json.dumps(value, default=str, ensure_ascii=False)[:80]
