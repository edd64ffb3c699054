"""The token by which a slurmrestd knows who asks.

Its file is read again before every batch of requests, so that a new one is taken without a restart.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rltune.live.rest_place import RestPlace
from rltune.live.see.backend import BackendError

_MADE_BY = "SLURM_JWT="  # how `scontrol token` begins what it prints


@dataclass(frozen=True)
class Token:
    """A JSON web token; what it says of itself is read, and checked by Slurm alone."""

    text: str
    user: str
    until_s: float = math.inf  # by the cluster's clock

    @classmethod
    def read(cls, place: RestPlace) -> Token:
        """Read the token of a place; without a file there is none, and it is reached by a unix socket."""
        if not place.token_file:
            return cls("", place.named_user)
        try:
            text = Path(place.token_file).read_text(encoding="ascii").strip().removeprefix(_MADE_BY)
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text"
            raise BackendError(f"the token cannot be read: {place.token_file}: {why}") from None
        return cls.of(text, place)

    @classmethod
    def of(cls, text: str, place: RestPlace) -> Token:
        """Read a token's own words."""
        try:
            claims = json.loads(_unpadded(text.split(".")[1]))
            user = place.named_user or str(claims.get("sun") or "")
            until_s = float(claims.get("exp", math.inf))
        except (IndexError, ValueError, AttributeError, TypeError, binascii.Error):
            raise BackendError(f"{place.token_file} holds no JSON web token; {how_to_make('USER')} makes one") from None
        if not user:
            raise BackendError(f"the token in {place.token_file} names no user (sun); name one as slurm.user")
        return cls(text, user, until_s)

    def require_valid(self, now_s: float, place: RestPlace) -> None:
        """Refuse one that has expired: slurmrestd's own answer to that does not say so."""
        if self.until_s <= now_s:
            told = datetime.fromtimestamp(self.until_s, UTC).isoformat(timespec="seconds")
            raise BackendError(f"the token in {place.token_file} expired at {told}; {how_to_make(self.user)} makes one")

    @property
    def headers(self) -> dict[str, str]:
        """Return what goes with every request."""
        return {"X-SLURM-USER-NAME": self.user, "X-SLURM-USER-TOKEN": self.text} if self.text else {}


def how_to_make(user: str) -> str:
    """Return the command that makes a token."""
    return f"`scontrol token username={user} lifespan=SECONDS`"


def _unpadded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
