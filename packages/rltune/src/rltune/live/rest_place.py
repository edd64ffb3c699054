"""Where a slurmrestd is reached: `[slurm]` of control.toml. Needs nothing but the standard library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from rltune.errors import InputError

KEYS = ("rest", "token", "user", "ca")
_PORTS = {"http": 6820, "https": 443}
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True)
class RestPlace:
    """One slurmrestd."""

    url: str  # http://host:6820, https://host or unix:/path
    token_file: str = ""
    named_user: str = ""  # if the token does not tell
    ca_file: str = ""  # of who signed the server's certificate; "" = who the machine trusts

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> RestPlace | None:
        """Read a `[slurm]` table; None if it names no slurmrestd."""
        unknown = sorted(set(table) - set(KEYS))
        if unknown:
            raise InputError(f"slurm.{unknown[0]} is not known; {', '.join(KEYS)} are")
        wrong = [key for key in KEYS if not isinstance(table.get(key, ""), str)]
        if wrong:
            raise InputError(f"slurm.{wrong[0]} should be a text")
        url, token, user, ca = (str(table.get(key, "")) for key in KEYS)
        if not url:
            return None
        place = cls(url, token, user, ca)
        place._require_sense()
        return place

    def _require_sense(self) -> None:
        parts = self.parts
        known = (parts.scheme in _PORTS and parts.hostname) or (parts.scheme == "unix" and parts.path.startswith("/"))
        if not known or parts.query or (parts.scheme != "unix" and parts.path.strip("/")):
            raise InputError(
                f"slurm.rest should be http://HOST:PORT, https://HOST:PORT or unix:/PATH, not {self.url!r}"
            )
        try:
            self.port  # noqa: B018  urlsplit looks at it only now
        except ValueError:
            raise InputError(f"slurm.rest names no port between 1 and 65535: {self.url!r}") from None
        if not self.token_file and parts.scheme != "unix":
            raise InputError("slurm.token should name a file with a token (scontrol token username=USER lifespan=S)")
        if not self.token_file and not self.named_user:
            raise InputError("slurm.user should name the account as which slurmrestd acts, where there is no token")
        if self.ca_file and parts.scheme != "https":
            raise InputError("slurm.ca is for https:// alone")

    @property
    def parts(self) -> SplitResult:
        """Return the address in its parts."""
        return urlsplit(self.url)

    @property
    def port(self) -> int:
        """Return the port; slurmrestd's usual one if none is named."""
        return self.parts.port or _PORTS.get(self.parts.scheme, 0)

    @property
    def leaks(self) -> bool:
        """Return whether the token travels unencrypted over a network."""
        return self.parts.scheme == "http" and self.parts.hostname not in _LOOPBACK
