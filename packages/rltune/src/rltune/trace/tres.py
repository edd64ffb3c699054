"""Slurm's spellings: trackable resources (`cpu=2,gres/gpu:k80=4,mem=250G,node=2`) and durations (`1-02:30:00`)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_MEM_UNITS_GIB = {"K": 1 / 1024**2, "M": 1 / 1024, "": 1 / 1024, "G": 1.0, "T": 1024.0, "P": 1024.0**2}
_MEM = re.compile(r"([\d.]+)([KMGTP]?)")
_DURATION = re.compile(r"(?:(?P<d>\d+)-)?(?:(?P<h>\d+):)?(?P<m>\d+):(?P<s>\d+(?:\.\d+)?)")


@dataclass(frozen=True)
class Tres:
    """What one record asked for or was given, over all its nodes."""

    gpus: float = 0.0
    types: tuple[str, ...] = ()
    shards: float = 0.0
    cpus: float = 0.0
    mem_gib: float = 0.0
    nodes: float = 0.0


@lru_cache(maxsize=100_000)
def parse_tres(text: str) -> Tres:
    """Read a list of resources by key: its order differs between Slurm's commands. Raises ValueError."""
    pairs = dict(part.split("=", 1) for part in text.split(",") if part)
    typed = {key.removeprefix("gres/gpu:"): float(v) for key, v in pairs.items() if key.startswith("gres/gpu:")}
    return Tres(
        gpus=float(pairs.get("gres/gpu", sum(typed.values()))),
        types=tuple(sorted(kind for kind, count in typed.items() if count > 0)),
        shards=float(pairs.get("gres/shard", 0)),
        cpus=float(pairs.get("cpu", 0)),
        mem_gib=parse_mem(pairs.get("mem", "0")),
        nodes=float(pairs.get("node", 0)),
    )


def parse_mem(text: str) -> float:
    """Read an amount of memory as GiB; a bare number is MiB. Raises ValueError."""
    match = _MEM.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return float(match[1]) * _MEM_UNITS_GIB[match[2]]


def parse_duration(text: str) -> float:
    """Read [days-][hours:]minutes:seconds as seconds. Raises ValueError."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(text)
    days, hours, minutes, seconds = (float(match[key] or 0) for key in ("d", "h", "m", "s"))
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
