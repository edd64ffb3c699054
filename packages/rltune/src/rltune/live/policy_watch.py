"""Whether the file of the policy in use is still the one that was read: looked at in every cycle, told once."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from rltune.live.decide.pinned import Pinned
from rltune.live.pinned_pipeline import file_hash, policy_file

GONE = ()
Signature = tuple[int, ...]


@dataclass
class PolicyWatch:
    """Remembers what the file looked like last."""

    path: Path | None
    pinned: Pinned
    _seen: Signature | None = None
    _differs: bool = False

    @classmethod
    def of(cls, spec: str, pinned: Pinned) -> PolicyWatch:
        """Watch the file of a policy that was just read."""
        return cls(policy_file(spec), pinned)

    def news(self) -> str:
        """Return what became of the file since the last look; "" if nothing did. It is hashed only if touched."""
        if self.path is None:
            return ""
        now = _signature(self.path)
        if now == self._seen:
            return ""
        self._seen = now
        return self._judged(_hash(self.path))

    def _judged(self, found: str) -> str:
        differed, self._differs = self._differs, found != self._read_hash
        still = f"still deciding by {short(self.pinned.sha256)}"
        if not found:
            return f"{self.path} cannot be read any more; {still}"
        if self._differs:
            return f"{self.path} was replaced on disk; {still}; reload with SIGHUP"
        return f"{self.path} is again what is decided by" if differed else ""

    @property
    def differs(self) -> bool:
        """Return whether the file holds something else than what is decided by."""
        return self._differs

    @property
    def _read_hash(self) -> str:
        """Return the hash of the bytes that were read: a model's own is of its contents."""
        return hashlib.sha256(self.pinned.text.encode()).hexdigest() if self.pinned.text else self.pinned.sha256


def short(sha256: str) -> str:
    """Return enough of a hash to tell two apart."""
    return f"sha256 {sha256[:12]}" if sha256 else "what is built in"


def _signature(path: Path) -> Signature:
    try:
        stat = path.stat()
    except OSError:
        return GONE
    return (stat.st_ino, stat.st_size, stat.st_mtime_ns)


def _hash(path: Path) -> str:
    try:
        return file_hash(path)
    except OSError:
        return ""
