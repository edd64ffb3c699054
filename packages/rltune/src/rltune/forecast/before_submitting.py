"""A request that is not submitted yet: when it would start, and which request like it would start soonest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from rltune.cluster import same_name
from rltune.errors import InputError, nearest, unknown
from rltune.forecast.rolls import ROLLS, forecast
from rltune.forecast.start_forecast import JobForecast, StartCalibration
from rltune.jobs import Jobs
from rltune.labels import Labels
from rltune.present.present import Present, told_times, told_unit
from rltune.text import columns, read_seconds, seconds

NAME = "this request"
WORTH_S = 60.0  # sooner, or else a request is not changed for it
_WORDS = ("gpus", "type", "time", "nodes", "partition", "user", "account", "qos", "cpus", "mem")


@dataclass(frozen=True)
class Request:
    """What would be asked."""

    gpus: int
    time_s: float = np.nan  # NaN = no limit is asked
    gpu_type: str = ""
    nodes: int = 0
    partition: str = ""
    user: str = ""
    account: str = ""
    qos: str = ""
    cpus: float = np.nan
    mem_gib: float = np.nan

    def __str__(self) -> str:
        parts = [f"gpus={self.gpus}"]
        parts += [f"type={self.gpu_type}"] if self.gpu_type else []
        parts += [f"nodes={self.nodes}"] if self.nodes else []
        parts += [f"time={seconds(self.time_s)}"] if np.isfinite(self.time_s) else []
        parts += [f"partition={self.partition}"] if self.partition else []
        return ",".join(parts)


@dataclass(frozen=True)
class Offer:
    """When one request would start."""

    request: Request
    start: JobForecast


@dataclass(frozen=True)
class Offers:
    """When a request would start, and others like it; the one as asked comes first."""

    now_s: float
    offers: tuple[Offer, ...]
    notes: tuple[str, ...] = ()

    @property
    def soonest(self) -> Offer:
        """Return the one that starts soonest by its median; nearest to what was asked of those within a minute."""
        starts = [np.nan_to_num(offer.start.p50_s, nan=np.inf) for offer in self.offers]
        soonest = min(starts)
        return next(one for one, start in zip(self.offers, starts, strict=True) if start <= soonest + WORTH_S)

    def __str__(self) -> str:
        times = ("p10", "p50", "p90")
        at = [t for one in self.offers for t in (one.start.p10_s, one.start.p50_s, one.start.p90_s)]
        cells = told_times(at, self.now_s, "not seen")
        rows = [(str(one.request), *cells[3 * i : 3 * i + 3]) for i, one in enumerate(self.offers)]
        best = self.soonest
        asked = "as asked" if best is self.offers[0] else f"{best.request}"
        first = f"Soonest: {asked}" if np.isfinite(best.start.p50_s) else "None of these was seen to start"
        table = columns([(f"request{told_unit(self.now_s)}", *times), *rows])
        return "\n".join([first, *table, *(f"Note: {note}." for note in self.notes)])

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON keeps."""
        plain = [{"request": str(one.request), **asdict(one.start)} for one in self.offers]
        for one in plain:
            one.update({key: None for key, value in one.items() if isinstance(value, float) and not np.isfinite(value)})
        return {"now_s": self.now_s, "soonest": str(self.soonest.request), "offers": plain, "notes": list(self.notes)}


def parse_request(text: str) -> Request:
    """Read a request such as `gpus=16,type=V100,time=4h`."""
    given: dict[str, str] = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        key, _, value = part.partition("=")
        if key not in _WORDS:
            raise unknown("word of a request", key, _WORDS)
        if key in given:
            raise InputError(f"request {text!r}: {key} stands twice")
        given[key] = value
    try:
        request = Request(
            gpus=_whole(given["gpus"]),
            time_s=read_seconds(given["time"]) if "time" in given else np.nan,
            gpu_type=given.get("type", ""),
            nodes=_whole(given.get("nodes", "0")),
            partition=given.get("partition", ""),
            user=given.get("user", ""),
            account=given.get("account", ""),
            qos=given.get("qos", ""),
            cpus=_amount(given["cpus"]) if "cpus" in given else np.nan,
            mem_gib=_amount(given["mem"]) if "mem" in given else np.nan,
        )
    except (KeyError, ValueError) as error:
        told = "gpus= is missing" if isinstance(error, KeyError) else str(error)
        raise InputError(f"request {text!r} is not understood ({told}); write gpus=16,type=V100,time=4h") from None
    if not request.gpus and not request.cpus > 0:
        raise InputError(f"request {text!r} asks for nothing; give gpus=1 or more, or cpus=")
    if not request.time_s > 0 and not np.isnan(request.time_s):
        raise InputError(f"request {text!r} asks for no time; give time=1m or more, or leave it out")
    return request


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{text!r} should be a whole number")
    return int(text)


def _amount(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not 0 < value < np.inf:
        raise ValueError(f"{text!r} should be a number above 0")
    return value


def require_possible(present: Present, request: Request) -> None:
    """Refuse what the cluster can never run: a type or partition that it does not have, or more than it has."""
    cluster = present.cluster
    if request.gpu_type and not any(same_name(request.gpu_type, own) for own in cluster.gpu_types):
        raise unknown("GPU type", request.gpu_type, cluster.gpu_types)
    if request.partition and cluster.vcs and not any(same_name(request.partition, own) for own in cluster.vcs):
        raise unknown("partition", request.partition, cluster.vcs)
    types = (request.gpu_type,) if request.gpu_type else ()
    room = [g for g in cluster.groups if g.accepted(request.partition, types, with_gpus=request.gpus > 0)]
    most = sum(group.count * group.gpus for group in room)
    if request.gpus > most:
        raise InputError(f"request {str(request)!r} can never start: there are {most:,} GPUs for it")


def notes_on_names(present: Present, request: Request) -> tuple[str, ...]:
    """Say which names of a request no job bears that is known here: they may be new, or misspelt."""
    told = []
    for scope in ("user", "account", "qos"):
        name = getattr(request, scope)
        tables = [present.recorded, *([present.history] if present.history is not None else [])]
        known = {one for table in tables for one in getattr(table, scope).names}
        if name and known and name not in known:
            near = nearest(name, known)
            meant = f" (did you mean {near}?)" if near else ""
            told.append(f"no job that is known here has {scope} {name}{meant}: it is taken to be new")
    return tuple(told)


def with_request(present: Present, request: Request) -> Present:
    """Return the present with a request submitted now."""
    row = len(present.jobs)
    limit = request.time_s if np.isfinite(request.time_s) else _usual_limit(present)
    job = Jobs.from_arrays(
        submit_s=[present.now_s],
        duration_s=[0.0],
        gpus=[request.gpus],
        nodes=[request.nodes],
        limit_s=[request.time_s],
        gpu_types=[request.gpu_type or None],
        vc=[request.partition or None],
        user=[request.user or None],
        account=[request.account or None],
        qos=[request.qos or None],
        cpus=[request.cpus],
        mem_gib=[request.mem_gib],
    )
    placed = replace(job, vc=Labels.of([present.admission.get(request.partition, request.partition)], 1))
    return replace(
        present,
        jobs=present.jobs.followed_by(placed),
        alike=None if present.alike is None else present.alike.followed_by(job),
        names=(*present.names, NAME),
        estimate_s=np.append(present.estimate_s, limit),
        waiting=np.append(present.waiting, row),
    )


def _usual_limit(present: Present) -> float:
    """Return what a job without a limit is taken to run: as the others that wait, or a day."""
    waiting = present.estimate_s[present.waiting]
    return float(np.median(waiting)) if len(waiting) else 86_400.0


def variants(present: Present, request: Request) -> Iterator[Request]:
    """Return the request, then others like it: other types, half the GPUs, half the time, more nodes."""
    yield request
    for kind in present.cluster.gpu_types:
        if request.gpu_type and kind.casefold() != request.gpu_type.casefold():
            yield replace(request, gpu_type=kind)
    if request.gpu_type and len(present.cluster.gpu_types) > 1:
        yield replace(request, gpu_type="")
    if request.gpus > 1:
        yield replace(request, gpus=request.gpus // 2, nodes=min(request.nodes, request.gpus // 2))
    if np.isfinite(request.time_s):
        yield replace(request, time_s=request.time_s / 2)
    if request.gpus >= 2 and not request.nodes and request.gpus % 2 == 0:
        yield replace(request, nodes=2)


def compare_requests(
    present: Present,
    request: Request,
    rolls: int = ROLLS,
    seed: int = 0,
    calibration: StartCalibration | None = None,
    *,
    workers: int = 2,
    progress: Callable[[int, int], None] | None = None,
) -> Offers:
    """Forecast the request and those like it, each submitted alone, under the same drawn futures."""
    require_possible(present, request)
    tried = list(variants(present, request))
    offers = []
    for i, one in enumerate(tried):
        made = forecast(with_request(present, one), rolls, seed, calibration, job=NAME, workers=workers)
        offers.append(Offer(one, made.by_job[NAME]))
        if progress is not None:
            progress(i + 1, len(tried))
    return Offers(present.now_s, tuple(offers), (*notes_on_names(present, request), *present.notes))
