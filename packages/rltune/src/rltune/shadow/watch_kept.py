"""How the controller itself did: its cycles, what it asked of Slurm, and what tripped."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np

from rltune.live.controller import CALLS
from rltune.live.journal.store import Journal

NO_TRIPS = frozenset({CALLS, "gain", "canary", "record"})  # kinds of events that tell of nothing that went wrong


@dataclass(frozen=True)
class WatchKept:
    """Cycles and events of a time."""

    cycles: int
    longest_gap_s: float  # from one cycle to the next
    decide_mean_s: float
    decide_p99_s: float
    most_waiting: int
    events: dict[str, int]  # by kind
    last_trips: tuple[tuple[float, str], ...]  # when and what, of those that tell of something wrong
    calls: dict[str, int]  # of Slurm's commands
    changes: int  # made or advised
    refused: int

    @property
    def trips(self) -> dict[str, int]:
        """Return the events that tell of something wrong, by kind."""
        return {kind: count for kind, count in self.events.items() if kind not in NO_TRIPS}


def watch_kept(journal: Journal, begin_s: float, most: int = 5) -> WatchKept:
    """Read how the controller did since a time of the cluster's clock."""
    rows = journal.rows("SELECT at_s, decide_s, waiting FROM cycle WHERE taken_s >= ? ORDER BY id", begin_s)
    at_s, decide_s = (np.array([row[i] for row in rows], dtype=np.float64) for i in range(2))
    since_s = float(at_s[0]) if len(at_s) else begin_s  # events have our clock
    told = journal.rows("SELECT at_s, kind, text FROM event WHERE at_s >= ? ORDER BY id", since_s)
    wrong = [(when, f"{kind}: {text}") for when, kind, text in told if kind not in NO_TRIPS]
    made, refused = journal.rows(
        "SELECT count(*), coalesce(sum(coalesce(error, '') != ''), 0) "
        "FROM change LEFT JOIN outcome ON change = change.id WHERE change.at_s >= ?",
        since_s,
    )[0]
    return WatchKept(
        cycles=len(rows),
        longest_gap_s=float(np.diff(at_s).max(initial=0.0)),
        decide_mean_s=float(decide_s.mean()) if len(rows) else 0.0,
        decide_p99_s=float(np.quantile(decide_s, 0.99)) if len(rows) else 0.0,
        most_waiting=max((row[2] for row in rows), default=0),
        events=dict(Counter(kind for _, kind, _ in told)),
        last_trips=tuple(wrong[-most:]),
        calls=_calls([text for _, kind, text in told if kind == CALLS]),
        changes=int(made),
        refused=int(refused),
    )


def _calls(texts: list[str]) -> dict[str, int]:
    """Add up what was told of calls: "squeue 60, sinfo 60"."""
    total: Counter[str] = Counter()
    for text in texts:
        total.update({name: int(count) for name, count in re.findall(r"(\w+) (\d+)", text)})
    return dict(total)
