"""The answer to "what if?": values that print themselves and turn into JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from rltune.text import columns, counted, percent, seconds, told_change
from rltune.trials.intervals import Interval
from rltune.trials.shares import FEWEST, Share, SmallGroup, told_small_groups

_SHOWN = 6


@dataclass(frozen=True)
class WhatIf:
    """Waits now and with a change, of the same jobs, and who gains and loses."""

    change: str
    where: str  # on which jobs
    jobs: int
    now_s: dict[str, float]  # mean, p50, p90, p99 of the wait
    then_s: dict[str, float]
    difference: Interval  # of the mean wait, then less now: 95 %, or, of futures, the middle and what four in five hold
    ratio: Interval
    utilisation: tuple[float, float]
    shares: tuple[Share, ...] = ()
    rejected: tuple[int, int] = (0, 0)  # jobs that can never run, now and then
    notes: tuple[str, ...] = ()
    small: tuple[SmallGroup, ...] = ()  # groups of fewer jobs than that
    fewest: int = FEWEST
    of_futures: bool = False  # one queue was rolled forward: what is told is the future in the middle
    mean_difference_s: float = math.nan  # over the futures, of the mean wait; a few of them may carry it

    @property
    def sentence(self) -> str:
        """Return what the change comes to, and how sure that is."""
        gain, span = self.difference.estimate, self.difference.span(_signed)
        if not math.isfinite(gain):
            return f"{self.change}: no job could be compared"
        waits = f"the mean wait goes from {seconds(self.now_s['mean'])} to {seconds(self.then_s['mean'])}"
        if not math.isfinite(self.difference.low):
            return f"{self.change}: {waits}; too few jobs to say how sure that is"
        of_some = f"so in some nothing is {'lost' if gain > 0 else 'gained'}"
        unsure = of_some if self.of_futures else "so nothing is shown"
        zero = "" if span == "unknown" else "that includes 0, "
        sure = "" if self.difference.excludes_zero else f"; {zero}{unsure}"
        than = "" if not self.now_s["mean"] else f", {told_change(1 - self.then_s['mean'] / self.now_s['mean'])}"
        if not self.of_futures:
            return f"{self.change}: {waits}{than} ({_signed(gain)}, 95 % interval {span}){sure}"
        told = f"{waits}{than}, in the middle of the futures"
        held = f"future by future {_signed(gain)} in the middle, {span} in four futures of five"
        return f"{self.change}: {told} ({held}){sure}{self._carried()}"

    def _carried(self) -> str:
        """Say that few futures carry the mean over them, where it lies outside of what four in five hold."""
        mean = self.mean_difference_s
        if math.isnan(mean) or self.difference.low <= mean <= self.difference.high:
            return ""
        return f"; a few futures, in which the queue grows far longer, carry the mean over all futures, {_signed(mean)}"

    def lines(self) -> list[str]:
        """Return the answer line by line."""
        told = [self.sentence, f"{counted(self.jobs, 'job')}, {self.where}"]
        names = ("mean", "p50", "p90", "p99")
        rows: list[tuple[str, ...]] = [("wait", *names)]
        like = self.now_s["mean"]
        both = (("now", self.now_s), ("then", self.then_s))
        rows += [(what, *(seconds(of[n], like=like) for n in names)) for what, of in both]
        told += columns(rows)
        if math.isfinite(self.utilisation[0]):
            told.append(f"Utilisation: {percent(self.utilisation[0])} now, {percent(self.utilisation[1])} then")
        if self.rejected[1] != self.rejected[0]:
            told.append(
                f"{counted(self.rejected[1], 'job')} could never run then, {self.rejected[0]:,} now; in no mean"
            )
        told += _gains_and_losses(self.shares, self.jobs)
        if self.small:
            told.append(
                f"Too few jobs to be a group of their own (under {self.fewest}): {told_small_groups(self.small)}"
            )
        return [*told, *(f"Note: {note}." for note in self.notes)]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON keeps; what is not known is null."""
        return {"sentence": self.sentence, **finite_or_null(asdict(self))}

    @classmethod
    def of_plain(cls, plain: dict[str, Any]) -> WhatIf:
        """Read what `to_dict` wrote; null is what is not known."""
        told = {one.name: plain[one.name] for one in fields(cls)}
        told |= {name: Interval(**_known(plain[name])) for name in ("difference", "ratio")}
        told |= {name: _known(plain[name]) for name in ("now_s", "then_s")}
        shares = [
            {**_known(one), "p90_s": tuple(one["p90_s"]), "worst_s": tuple(one["worst_s"])} for one in plain["shares"]
        ]
        told["mean_difference_s"] = math.nan if told["mean_difference_s"] is None else told["mean_difference_s"]
        told["utilisation"] = tuple(math.nan if value is None else value for value in plain["utilisation"])
        told |= {
            "shares": tuple(Share(**one) for one in shares),
            "small": tuple(SmallGroup(**g) for g in plain["small"]),
        }
        return cls(**{**told, "rejected": tuple(plain["rejected"]), "notes": tuple(plain["notes"])})


def _known(plain: dict[str, Any]) -> dict[str, Any]:
    return {name: math.nan if value is None else value for name, value in plain.items()}


@dataclass(frozen=True)
class Solved:
    """How many nodes of a kind meet a target."""

    kind: str  # 8:A100
    target: str
    nodes: int | None  # the fewest that meet it; None if as many as were tried do not
    low: int | None  # the fewest if the history were kinder, and harsher: 95 % over blocks of time
    high: int | None
    reached_s: float  # the measure with that many nodes
    now_s: float
    tried: dict[int, float]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        now = f"now {seconds(self.now_s)}"
        if self.nodes is None:
            return f"{self.target}: not met by {max(self.tried)} nodes more of {self.kind} ({now})"
        if self.nodes == 0:
            return f"{self.target}: met already ({now})"
        span = f"{_count(self.low)} to {_count(self.high)}"
        more = counted(self.nodes, "node more", "nodes more")
        return f"{self.target}: {more} of {self.kind} ({span}), which come to {seconds(self.reached_s)}; {now}"

    def lines(self) -> list[str]:
        """Return the answer line by line."""
        return [str(self), *(f"Note: {note}." for note in self.notes)]

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON keeps."""
        return {"sentence": str(self), **finite_or_null(asdict(self))}


def _count(nodes: int | None) -> str:
    return "more than were tried" if nodes is None else f"{nodes:,}"


def _signed(value_s: float) -> str:
    return f"{'+' if value_s > 0 else ''}{seconds(value_s)}"


def _gains_and_losses(shares: tuple[Share, ...], jobs: int) -> list[str]:
    """Return the groups that gain and lose most, by what their jobs wait in all."""
    ranked = sorted(_told_apart(shares, jobs), key=lambda share: share.jobs * (share.then_s - share.now_s))
    if not ranked:
        return []
    gain = [share for share in ranked if share.then_s < share.now_s]
    lose = [share for share in reversed(ranked) if share.then_s > share.now_s]
    return [*_most("Gain most", gain), *_most("Lose most", lose)]


def _most(title: str, shares: Sequence[Share]) -> list[str]:
    told = [f"{title}:" if shares else f"{title}: no group"]
    for s in shares[:_SHOWN]:
        like = max(s.now_s, s.then_s)
        waits = f"{seconds(s.now_s, like)} -> {seconds(s.then_s, like)}"
        told.append(f"  {s.kind} {s.name} ({counted(s.jobs, 'job')}): {waits} ({_signed(s.then_s - s.now_s)})")
    more = len(shares) - _SHOWN
    return [*told, f"  ... and {counted(more, 'group')} more"] if more > 0 else told


def _told_apart(shares: tuple[Share, ...], jobs: int) -> list[Share]:
    """Leave out a group of all jobs, and join those that are the same jobs under several names."""
    found: dict[tuple[Any, ...], Share] = {}
    for share in shares:
        same = share.jobs, share.now_s, share.then_s, share.p90_s, share.worst_s
        if share.jobs == jobs:
            continue
        before = found.get(same)
        joined = share if before is None else replace(before, name=f"{before.name}, {share.kind} {share.name}")
        found[same] = joined
    return list(found.values())


def finite_or_null(value: Any) -> Any:
    """Replace numbers that are none by null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): finite_or_null(one) for key, one in value.items()}
    return [finite_or_null(one) for one in value] if isinstance(value, list | tuple) else value
