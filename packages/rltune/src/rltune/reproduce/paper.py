"""The paper's numbers (`paper.toml`), what follows from them, and where the paper contradicts itself."""

from __future__ import annotations

import itertools
import tomllib
from dataclasses import dataclass, fields
from decimal import Decimal
from functools import lru_cache
from importlib import resources
from statistics import fmean
from typing import TYPE_CHECKING, Any

from rltune.errors import unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECONDS_A_DAY = 86400
DAYS_A_MONTH = 365.25 / 12


@dataclass(frozen=True)
class PaperNumber:
    """One number of the paper: where it stands, what it measures, and the value with its printed precision."""

    key: str
    where: str  # "table 9", "section 5.4", "abstract"
    value: float
    step: float  # one unit of the last printed digit
    kind: str  # absolute, gain (percent better), factor (times better), setting
    metric: str
    unit: str = ""
    better: str = ""  # "lower", "higher", or neither for a setting
    trace: str = ""
    policy: str = ""
    against: str = ""
    row: str = ""  # the paper's words, as are the parts of the key
    column: str = ""
    also: tuple[str, ...] = ()  # where else the paper says the same
    note: str = ""


@dataclass(frozen=True)
class PaperTable:
    """One table of the paper; cells that print no number are left out."""

    name: str
    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    labels: dict[str, str]  # row -> as the paper prints it
    cells: tuple[PaperNumber, ...]

    def cell(self, row: str, column: str) -> PaperNumber:
        """Return the number of a row and column."""
        return number(f"{self.name}.{row}.{column}")

    def select(self, **want: str) -> tuple[PaperNumber, ...]:
        """Return the cells whose fields are these: `select(trace="philly", metric="wait")`."""
        return tuple(c for c in self.cells if all(getattr(c, field) == value for field, value in want.items()))


@dataclass(frozen=True)
class PaperStatement:
    """What the paper says without a number; `but` is the key of a number that does not go with it."""

    key: str
    where: str
    says: str
    but: str = ""
    why: str = ""


@dataclass(frozen=True)
class Derivation:
    """A number that follows from others: an operation on groups of keys, of whose results one is picked."""

    by: str
    of: tuple[tuple[str, ...], ...]
    pick: str = "only"

    @property
    def plain(self) -> PaperNumber | None:
        """Return the number itself if nothing is computed."""
        return number(self.of[0][0]) if self.by == "value" and len(self.of) == 1 else None

    @property
    def value(self) -> float:
        """Return the result from the values as printed."""
        return _PICKS[self.pick]([_OPERATIONS[self.by](*(number(k).value for k in keys)) for keys in self.of])

    @property
    def bounds(self) -> tuple[float, float]:
        """Return the least and the most that it can be, as each value was rounded to its last digit."""
        ranges = [self._range(keys) for keys in self.of]
        return _PICKS[self.pick]([low for low, _ in ranges]), _PICKS[self.pick]([high for _, high in ranges])

    def _range(self, keys: tuple[str, ...]) -> tuple[float, float]:
        ends = [(n.value - n.step / 2, n.value + n.step / 2) for n in map(number, keys)]
        results = [_OPERATIONS[self.by](*corner) for corner in itertools.product(*ends)]
        return min(results), max(results)


@dataclass(frozen=True)
class PaperClaim:
    """Something the paper says (`said`), and the same from elsewhere in it (`found`)."""

    key: str
    said: Derivation
    found: Derivation
    expected: str  # the verdict that paper.toml writes
    compare: str  # what our result is set beside: said, found, each (with an experiment of its own) or neither
    why: str
    within: float = 0.0

    @property
    def verdict(self) -> str:
        """Compute whether the two agree: agrees, differs, other metric, other base.

        A value of the text may be rounded either way, so it counts as known to one unit of its last digit.
        """
        low, high = self.said.bounds
        said, found = self.said.plain, self.found.plain
        slack = (said.step / 2 if said else 0.0) + self.within * abs(self.said.value)
        if self.found.bounds[0] > high + slack or self.found.bounds[1] < low - slack:
            return "differs"
        if said and found and said.metric != found.metric:
            return "other metric"
        if said and found and said.against and found.against != said.against:
            return "other base"
        return "agrees"


@dataclass(frozen=True)
class PaperGain:
    """How much better one policy is than another by a table: percent, positive if better."""

    trace: str
    metric: str
    policy: str
    against: str
    value: float


def reduction(base: float, ours: float) -> float:
    """Return by how many percent ours is lower."""
    return 100 * (1 - ours / base)


def increase(base: float, ours: float) -> float:
    """Return by how many percent ours is higher."""
    return 100 * (ours / base - 1)


_OPERATIONS: dict[str, Callable[..., float]] = {
    "value": lambda a: a,
    "reduction": reduction,
    "increase": increase,
    "ratio": lambda a, b: a / b,
    "difference": lambda a, b: a - b,
    "sum": lambda a, b: a + b,
    "days": lambda jobs, jobs_a_second: jobs / jobs_a_second / SECONDS_A_DAY,
    "a month": lambda jobs, days: jobs / days * DAYS_A_MONTH,
    "milliseconds each": lambda seconds, jobs: 1000 * seconds / jobs,
    "milliseconds more each": lambda ours, base, batches, batch: 1000 * (ours - base) / (batches * batch),
    "percent of running jobs": lambda jobs_a_second, run_s, gpus: 100 * jobs_a_second * run_s / gpus,
}

_PICKS: dict[str, Callable[[list[float]], float]] = {"only": lambda x: x[0], "least": min, "most": max, "mean": fmean}


def number(key: str) -> PaperNumber:
    """Return the number of a key, such as `table9.rltune.philly.wait`."""
    found = _by_key().get(key)
    if found is None:
        place = key.partition(".")[0] + "."
        near = [known for known in _by_key() if known.startswith(place)]
        raise unknown("number of the paper", key, near or sorted({k.partition(".")[0] for k in _by_key()}))
    return found


@lru_cache
def numbers() -> tuple[PaperNumber, ...]:
    """Return all numbers, tables first, in the order of the paper."""
    in_tables = [cell for name in table_names() for cell in table(name).cells]
    return (*in_tables, *_text_numbers())


def table_names() -> tuple[str, ...]:
    """Return the names of the tables: table2, table4, ..."""
    return tuple(name for name in _paper() if name.startswith("table"))


@lru_cache
def table(name: str) -> PaperTable:
    """Return a table by its name, such as `table9`."""
    if name not in table_names():
        raise unknown("table of the paper", name, table_names())
    data = _paper()[name]
    return PaperTable(
        name=name,
        title=data["title"],
        rows=tuple(row["name"] for row in data["rows"]),
        columns=tuple(column["name"] for column in data["columns"]),
        labels={row["name"]: row["label"] for row in data["rows"]},
        cells=tuple(_cells(name, data)),
    )


@lru_cache
def statements() -> tuple[PaperStatement, ...]:
    """Return what the paper says without a number."""
    return tuple(PaperStatement(**each) for each in _paper()["statement"])


@lru_cache
def claims() -> tuple[PaperClaim, ...]:
    """Return what the paper says twice, or what follows from its other numbers."""
    return tuple(_claim(dict(each)) for each in _paper()["claim"])


def contradictions() -> tuple[PaperClaim, ...]:
    """Return the claims that the paper's other numbers do not bear out."""
    return tuple(claim for claim in claims() if claim.verdict != "agrees")


def gains(name: str, against: str, policy: str = "rltune") -> tuple[PaperGain, ...]:
    """Return a policy's gain over another for each trace and metric of a table of absolute numbers (8 or 9)."""
    cells = [cell for cell in table(name).cells if cell.kind == "absolute"]
    known = {(cell.policy, cell.trace, cell.metric): cell for cell in cells}
    for each in (policy, against):
        if each not in {cell.policy for cell in cells}:
            raise unknown("policy", each, dict.fromkeys(cell.policy for cell in cells if cell.policy), f"in {name}")
    return tuple(
        PaperGain(cell.trace, cell.metric, policy, against, _gain(known[against, cell.trace, cell.metric], cell))
        for cell in cells
        if cell.policy == policy
    )


def _gain(base: PaperNumber, ours: PaperNumber) -> float:
    return (reduction if ours.better == "lower" else increase)(base.value, ours.value)


@lru_cache
def _paper() -> dict[str, Any]:
    text = (resources.files("rltune") / "reproduce" / "paper.toml").read_text(encoding="utf-8")
    return tomllib.loads(text, parse_float=Decimal)  # Decimal keeps the printed digits: 4.00 is not 4


@lru_cache
def _by_key() -> dict[str, PaperNumber]:
    return {each.key: each for each in numbers()}


_FIELDS = {field.name for field in fields(PaperNumber)}


def _cells(name: str, data: dict[str, Any]) -> Iterator[PaperNumber]:
    common = {key: value for key, value in data.items() if key in _FIELDS}
    for row in data["rows"]:
        for column, value in zip(data["columns"], row["values"], strict=True):
            if value == "":  # no number is printed there
                continue
            given = {k: v for k, v in (common | column | row).items() if k in _FIELDS}
            place = {"key": f"{name}.{row['name']}.{column['name']}", "where": f"table {name.removeprefix('table')}"}
            yield _number(given | place | {"row": row["name"], "column": column["name"], "value": value})


@lru_cache
def _text_numbers() -> tuple[PaperNumber, ...]:
    blocks = _paper()["text"]
    common = [{key: value for key, value in block.items() if key != "numbers"} for block in blocks]
    return tuple(
        _number(shared | each) for shared, block in zip(common, blocks, strict=True) for each in block["numbers"]
    )


def _number(given: dict[str, Any]) -> PaperNumber:
    printed = Decimal(given["value"])
    exponent = printed.as_tuple().exponent
    assert isinstance(exponent, int), given["key"]
    better = "higher" if given["kind"] in {"gain", "factor"} else _paper()["better"].get(given["metric"], "")
    derived = {
        "value": float(printed),
        "step": float(Decimal(1).scaleb(exponent)),
        "better": given.get("better", "" if given["kind"] == "setting" else better),
        "also": tuple(given.get("also", ())),
    }
    return PaperNumber(**(given | derived))


def _claim(given: dict[str, Any]) -> PaperClaim:
    return PaperClaim(
        key=given.pop("key"),
        said=_derivation(given.pop("said")),
        found=_derivation(given.pop("found")),
        expected=given.pop("verdict"),
        within=float(given.pop("within", 0)),
        **given,
    )


def _derivation(given: str | dict[str, Any]) -> Derivation:
    if isinstance(given, str):
        return Derivation("value", ((given,),))
    return Derivation(given["by"], tuple(tuple(keys) for keys in given["of"]), given.get("pick", "only"))
