"""Slurm's spellings of GPUs: `gpu:k80:2(IDX:0-1)`, `gres:gpu:p100:2`, `gres/gpu:8`, `gpu:a100_1g.5gb:7`, `shard:8`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_DETAILS = re.compile(r"\([^()]*\)")
_MIG = re.compile(r"(^|[^0-9a-z])\d+g\.\d+gb", re.IGNORECASE)
SHARES = frozenset({"shard", "mps"})


@dataclass(frozen=True, slots=True)
class Gpus:
    """So many GPUs by type, in the order told; "" where no type is told. `shared`: parts of GPUs are among them."""

    by_type: tuple[tuple[str, int], ...] = ()
    shared: bool = False

    @property
    def count(self) -> int:
        """Count them."""
        return sum(count for _, count in self.by_type)

    @property
    def types(self) -> tuple[str, ...]:
        """Name the types."""
        return tuple(dict.fromkeys(kind for kind, count in self.by_type if kind and count))


@lru_cache(maxsize=10_000)
def parse_gpus(text: str) -> Gpus:
    """Find the GPUs in a list of generic resources; what is no GPU is passed over. Raises ValueError."""
    items = [_words(item) for item in _DETAILS.sub("", text or "").split(",")]
    found = [_gpus(words) for words in items if words[0] == "gpu"]
    shared = any(words[0] in SHARES and words[-1] != "0" for words in items)
    return Gpus(tuple(found), shared or any(is_mig(kind) and count > 0 for kind, count in found))


def _words(item: str) -> list[str]:
    """Take `gres/gpu:p100=2` apart into gpu, p100, 2."""
    return item.strip().removeprefix("gres:").removeprefix("gres/").replace("=", ":").split(":")


def _gpus(words: list[str]) -> tuple[str, int]:
    """Read type and count; either may be missing."""
    if len(words) == 3:
        return words[1], int(words[2])
    if len(words) > 3:
        raise ValueError(":".join(words))
    told = words[1] if len(words) == 2 else "1"
    return ("", int(told)) if told.isdecimal() else (told, 1)


def is_mig(gpu_type: str) -> bool:
    """Return whether a type of GPU is a slice of one, such as a100_1g.5gb."""
    return _MIG.search(gpu_type) is not None
