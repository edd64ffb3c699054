"""Who may look at what: bearer tokens from a file that holds only their hashes."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import stat
import tomllib
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rltune.errors import InputError

_BYTES = 32
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Role(StrEnum):
    """How much a token is good for."""

    VIEWER = "viewer"  # looks at pages and data
    OPERATOR = "operator"  # also sees the controller's settings, and asks what-if questions, which cost minutes


@dataclass(frozen=True)
class Caller:
    """Who asks."""

    name: str
    role: Role
    user: str = ""  # sees only the jobs of this user; "" = everybody's

    @property
    def is_operator(self) -> bool:
        """Return whether it may ask what costs something."""
        return self.role is Role.OPERATOR

    def may_see(self, owner: str) -> bool:
        """Return whether the jobs of this user are shown to it."""
        return not self.user or self.user == owner


NOBODY_ASKED = Caller("loopback", Role.OPERATOR)  # who may open a port of this machine needs no token there


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1, max_length=64)]
    role: Role = Role.VIEWER
    user: Annotated[str, Field(max_length=64)] = ""
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    token: tuple[_Line, ...] = ()


@dataclass(frozen=True)
class Tokens:
    """Callers by the hash of their token."""

    callers: dict[str, Caller]

    @classmethod
    def read(cls, path: Path) -> Tokens:
        """Read a file of tokens; one that others may read is refused."""
        try:
            if path.stat().st_mode & _OTHERS:
                raise InputError(f"{path}: others can read or write this file of tokens; run `chmod 600 {path}`")
            lines = _File.model_validate(tomllib.loads(path.read_text(encoding="utf-8"))).token
        except OSError as error:
            raise InputError(f"{path}: tokens cannot be read: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: is not TOML: {error}") from None
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise InputError(f"{path}: {where}: {first['msg']}; `rltune serve --new-token NAME` writes one") from None
        if not lines:
            raise InputError(f"{path}: holds no token; `rltune serve --new-token NAME` writes one")
        _require_distinct(path, [line.sha256 for line in lines])
        return cls({line.sha256: Caller(line.name, line.role, line.user) for line in lines})

    def caller(self, token: str) -> Caller | None:
        """Return whose token this is, in a time that does not depend on how nearly it is one."""
        wanted, found = digest(token), None
        for known, caller in self.callers.items():
            if hmac.compare_digest(known, wanted):
                found = caller
        return found


def digest(token: str) -> str:
    """Return what a file keeps of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def new_token(name: str, role: Role, user: str) -> tuple[str, str]:
    """Draw a token; return it, and the lines of the file that know it."""
    token = secrets.token_urlsafe(_BYTES)
    caller = _Line(name=name, role=role, user=user, sha256=digest(token))
    only = f"user = {_quoted(user)}\n" if user else ""
    lines = f'\n[[token]]\nname = {_quoted(caller.name)}\nrole = "{caller.role}"\n{only}sha256 = "{caller.sha256}"\n'
    return token, lines


def _quoted(text: str) -> str:
    """Write a text as TOML does; names with control characters are nobody's."""
    if not text.isprintable() or '"' in text or "\\" in text:
        raise InputError(f"{text!r}: a name in a file of tokens has no quotes, backslashes or control characters")
    return f'"{text}"'


def _require_distinct(path: Path, hashes: list[str]) -> None:
    if len(set(hashes)) < len(hashes):
        raise InputError(f"{path}: the same token stands there twice: who would it be?")
