"""What happened to the rows of a trace on the way in: each one dropped, merged or repaired is counted by a rule."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Group

    from rltune.trace.trace_file import Source

Mask = NDArray[np.bool_]
Action = Literal["dropped", "merged", "repaired", "noted"]
_EXAMPLE_LENGTH = 100
_SHOWN, _MEANING_WIDTH = 28, 46  # characters of a table: it goes to a terminal of 120, and to files that are read there


@dataclass(frozen=True)
class Repair:
    """What is done to a row, and when."""

    action: Action
    meaning: str


RULES: dict[str, Repair] = {
    "half-written": Repair("dropped", "the record lacks fields: the accounting database lags behind by seconds"),
    "delimiter-unclear": Repair("dropped", "the record has a field too many, and it is not clear which to join"),
    "unknown-state": Repair("dropped", "the state is none of Slurm's, so how the job ended is not known"),
    "header-again": Repair("dropped", "the header line once more: several exports were joined"),
    "same-record-twice": Repair("dropped", "the record stands in the file already (--dedupe)"),
    "job-step": Repair("dropped", "a step of a job (1234.batch, 1234.0), not a job"),
    "partial-execution": Repair("dropped", "one burst of a job that has a line of its own (SWF status 2, 3, 4)"),
    "no-submit-time": Repair("dropped", "when the job was submitted is not recorded"),
    "never-started": Repair("dropped", "the job never ran, so its run time is not known"),
    "still-running": Repair("dropped", "the job had not ended when the history was taken"),
    "no-run-time": Repair("dropped", "start, end or run time is not recorded"),
    "end-before-start": Repair("dropped", "the recorded end lies before the recorded start"),
    "no-gpu-no-cpu": Repair("dropped", "the record names neither GPUs nor CPUs, so what the job took is not known"),
    "duplicate-requeue": Repair("dropped", "an earlier record of a requeued job; its first submit time is kept"),
    "earlier-spell": Repair(
        "merged", "an earlier spell of a job that was requeued or preempted: run times are added up"
    ),
    "lost-spell": Repair("merged", "an earlier spell, ended by a failing node: its work was lost and is not added"),
    "several-spells": Repair("noted", "the job ran in several spells: run time is their sum, work done twice included"),
    "cut-off-spell": Repair(
        "noted", "the job was requeued and no later record has its end: it has run at least so long"
    ),
    "several-tasks": Repair("merged", "tasks of one job: resources are added up, run time is first start to last end"),
    "several-attempts": Repair("noted", "the job ran more than once: run time is the sum over its attempts"),
    "attempt-without-times": Repair("repaired", "an attempt without start or end, or that ends first, is left out"),
    "attempts-differ": Repair("repaired", "attempts had different numbers of GPUs: the largest is taken"),
    "gpu-share-rounded-up": Repair("repaired", "the job asked a share of a GPU: it is given whole GPUs"),
    "mixed-gpu-types": Repair("repaired", "tasks of one job ran on several GPU types: any of them is acceptable"),
    "instances-not-told": Repair("repaired", "the number of instances is missing: one is taken"),
    "submit-is-start": Repair("repaired", "no submit time is recorded: the start is taken, so waits are not known"),
    "submit-after-start": Repair("repaired", "recorded start lies before the submit time: it is left out"),
    "more-nodes-than-gpus": Repair("repaired", "the job had more nodes than GPUs: the scheduler may choose the nodes"),
    "delimiter-in-name": Repair("repaired", "the job's name holds the separator: the surplus fields belong to it"),
    "delimiter-in-field": Repair("repaired", "a field such as QOS holds the separator: it got it back"),
    "het-part": Repair("repaired", "a part of a heterogeneous job stands as a job of its own"),
    "hours-to-seconds": Repair("repaired", "the file counts in hours"),
    "gpu-type-unknown": Repair("repaired", "the code of the GPU type has no published meaning: any type is acceptable"),
    "processors-used": Repair("repaired", "no number of processors asked: the number used is taken"),
    "more-used-than-asked": Repair("repaired", "more processors were used than asked: the job is given those used"),
    "unknown-dependency": Repair("repaired", "the job depends on one that is not kept or comes later: taken as ended"),
    "no-time-asked": Repair("noted", "the user asked no time: the limit is left open"),
    "no-limit-column": Repair(
        "noted",
        "column TimelimitRaw is missing: which times were asked is not known, nor what they let others overtake",
    ),
    "no-given-column": Repair("noted", "column AllocTRES is missing: what was asked is taken for what was given"),
    "no-nodes-column": Repair(
        "noted", "column NodeList is missing: where jobs ran is not known, nor which nodes were down"
    ),
    "no-eligible-column": Repair(
        "noted", "column Eligible is missing: waits may hold dependencies, begin times and throttles"
    ),
    "no-user-column": Repair("noted", "column User is missing: limits, fair share and who pays by user are not known"),
    "no-partition-column": Repair("noted", "column Partition is missing: all jobs are taken to use all nodes"),
    "run-over-limit": Repair("noted", "the job ran longer than the time asked"),
    "zero-run-time": Repair("noted", "the run time is 0 s"),
    "eligible-later": Repair("noted", "the job could not start at submit (begin time, dependency, array throttle)"),
    "memory-not-counted": Repair("repaired", "memory was asked for, but Slurm gives none there: it is left open"),
    "clock-change": Repair(
        "noted", "start and end lie an hour nearer or farther than the run time: local times over a change of clocks"
    ),
    "node-list-unreadable": Repair("repaired", "the list of nodes cannot be read: where the job ran is left out"),
    "unknown-column": Repair("noted", "a column that is not one of ours is left out"),
}
# what the whole file lacks, and no job is to blame for
MISSING_COLUMNS = {
    "no-limit-column": "TimelimitRaw",
    "no-given-column": "AllocTRES",
    "no-nodes-column": "NodeList",
    "no-eligible-column": "Eligible",
    "no-user-column": "User",
    "no-partition-column": "Partition",
}
# rules that leave out records of jobs that may have run: a machine without them is less busy than it was
MAY_HAVE_RUN = frozenset(
    {
        "half-written",
        "delimiter-unclear",
        "unknown-state",
        "no-submit-time",
        "still-running",
        "no-run-time",
        "end-before-start",
        "no-gpu-no-cpu",
    }
)


@dataclass(frozen=True)
class Finding:
    """How often one rule was applied, and the first line it was applied to."""

    rule: str
    action: Action
    count: int
    line: int
    example: str

    @property
    def meaning(self) -> str:
        """Return in words what the rule does."""
        return RULES[self.rule].meaning


@dataclass(frozen=True)
class Quality:
    """The account of one file: rows read = kept + dropped + merged."""

    path: str
    format: str
    rows: int
    kept: int
    findings: tuple[Finding, ...]

    def count(self, action: Action) -> int:
        """Add up the rows that some rule with this action was applied to."""
        return sum(f.count for f in self.findings if f.action == action)

    def __getitem__(self, rule: str) -> int:
        """Return how many rows a rule was applied to."""
        return next((f.count for f in self.findings if f.rule == rule), 0)

    def with_dropped(self, rule: str, lines: Sequence[int], example: str) -> Quality:
        """Return the account with lines that were left out before the reader saw them."""
        if not lines:
            return self
        also = next((f for f in self.findings if f.rule == rule), None)
        count, first = len(lines) + (also.count if also else 0), min(lines[0], also.line if also else lines[0])
        finding = Finding(rule, RULES[rule].action, count, first, _printable(example[:_EXAMPLE_LENGTH]))
        rest = (f for f in self.findings if f is not also)
        return replace(self, rows=self.rows + len(lines), findings=(finding, *rest))

    def to_dict(self) -> dict[str, Any]:
        """Return the account as plain values, for JSON."""
        sums = {"rows": self.rows, "kept": self.kept, "dropped": self.count("dropped"), "merged": self.count("merged")}
        found = [{**asdict(f), "meaning": f.meaning} for f in self.findings]
        return {"path": self.path, "format": self.format, **sums, "findings": found}

    def __str__(self) -> str:
        parts = [f"{f.rule} {f.count:,} {f.action}" for f in self.findings]
        return f"{self.path} ({self.format}): {self.rows:,} rows read, {self.kept:,} jobs kept; " + (
            "; ".join(parts) or "nothing to repair"
        )

    def __rich__(self) -> Group:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        told = f" ({self.format}): {self.rows:,} rows read, {self.kept:,} jobs kept"
        head = Text.assemble((self.path, "bold"), told)
        if not self.findings:
            return Group(head, "nothing to repair")
        table = Table("rule", "rows", "what was done", "line", "begins", box=None, padding=(0, 2, 0, 0))
        table.columns[1].justify = table.columns[3].justify = "right"
        table.columns[2].max_width = _MEANING_WIDTH
        table.columns[4].no_wrap = True
        for f in self.findings:
            first = Text(f.example[:_SHOWN])  # as it is: a line may look like markup
            table.add_row(f.rule, f"{f.count:,}", f"{f.action}: {f.meaning}", f"{f.line:,}", first)
        return Group(head, table)


class Ledger:
    """Keeps account while a reader works: which rows live, and which rule was applied to which."""

    def __init__(self, source: Source, lines: NDArray[np.int64]) -> None:
        self.source = source
        self.lines = lines
        self.alive: Mask = np.ones(len(lines), dtype=np.bool_)
        self._gone: dict[str, Mask] = {}
        self._marked: dict[str, Mask] = {}
        self._examples: dict[str, str] = {}

    def drop(self, rule: str, rows: Mask) -> None:
        """Leave rows out; one that an earlier rule has left out counts there."""
        assert RULES[rule].action in {"dropped", "merged"}
        hit = rows & self.alive
        self._gone[rule] = self._gone.get(rule, np.zeros_like(hit)) | hit
        self.alive &= ~hit

    def mark(self, rule: str, rows: Mask, example: str = "") -> None:
        """Record that rows were repaired or noted; only those kept in the end count. The first line is the example."""
        assert RULES[rule].action in {"repaired", "noted"}
        self._examples.setdefault(rule, example)
        self._marked[rule] = self._marked.get(rule, np.zeros_like(rows)) | rows

    def close(self, format_name: str) -> Quality:
        """Draw the line and add up."""
        kept = int(self.alive.sum())
        quality = Quality(self.source.path, format_name, len(self.lines), kept, tuple(self._findings()))
        assert quality.rows == kept + quality.count("dropped") + quality.count("merged")
        return quality

    def _findings(self) -> Iterator[Finding]:
        for rule, rows in (*self._gone.items(), *((r, m & self.alive) for r, m in self._marked.items())):
            if rows.any():
                line = int(self.lines[int(np.argmax(rows))])
                told = "" if self.source.is_parquet else self.source.line(line)
                example = _printable((self._examples.get(rule) or told)[:_EXAMPLE_LENGTH])
                yield Finding(rule, RULES[rule].action, int(rows.sum()), line, example)


def _printable(text: str) -> str:
    """Put a space for what a terminal would obey."""
    return "".join(char if char.isprintable() else " " for char in text)
