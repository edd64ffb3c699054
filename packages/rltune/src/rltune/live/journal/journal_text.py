"""What a journal holds, for people."""

from __future__ import annotations

import datetime as dt
import math
from typing import TYPE_CHECKING

from rltune.live.decide.decision import Waiting
from rltune.live.journal.packing import unpack_decision
from rltune.live.journal.store import Journal

if TYPE_CHECKING:
    from rich.table import Table

_MIB = 1 << 20


def summary(journal: Journal) -> dict[str, str | int | float]:
    """Count what is there."""
    cycles, first, last = journal.rows("SELECT count(*), min(at_s), max(at_s) FROM cycle")[0]
    made, refused = journal.rows("SELECT count(*), coalesce(sum(error != ''), 0) FROM outcome")[0]
    gain = journal.rows("SELECT text FROM event WHERE kind = 'gain' ORDER BY id DESC LIMIT 1")
    told: dict[str, str | int | float] = {
        "cycles": cycles,
        "from": _time(first),
        "to": _time(last),
        "changes": made,
        "of these refused": refused,
        "jobs that carry a change": len(journal.holdings().by_job),
        "jobs seen to end": journal.rows("SELECT count(*) FROM ended")[0][0],
        "size in MiB": round(journal.size_bytes() / _MIB, 1),
    }
    return told | ({"gain": gain[0][0]} if gain else {})


def decision_table(journal: Journal, number: int) -> Table:
    """Show one decision in the order in which jobs wait."""
    from rich.table import Table
    from rich.text import Text

    cycle = journal.cycle(number)
    decision = unpack_decision(cycle.decision)
    title = f"cycle {cycle.id}, {_time(cycle.taken_s)}, {'acting' if cycle.acting else 'not acting'}"
    table = Table("rank", "Slurm's", "job", "score", "number", "decision", title=title, box=None, padding=(0, 2, 0, 0))
    for part in decision.waiting:
        table.add_row(*map(Text, _cells(part)))
    for turn in decision.displacements:
        for victim in turn.victims:
            table.add_row(*map(Text, ("-", "-", str(victim.job), "-", "-", f"gives way to job {turn.claimant}")))
    return table


def _cells(part: Waiting) -> tuple[str, ...]:
    ranks = (str(part.rank + 1), str(part.slurm_rank + 1)) if part.competes else ("-", "-")
    score = "-" if math.isnan(part.score) else f"{part.score:.6g}"
    number = "-" if part.number is None else str(part.number)
    owed = "" if part.owed_since_s is None else f"; owed its start since {_time(part.owed_since_s)}"
    what = f"starts on {','.join(part.nodes)}" if part.starts else part.reason
    return (*ranks, str(part.job), score, number, f"{what}{owed}")


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%d %H:%M:%SZ")
