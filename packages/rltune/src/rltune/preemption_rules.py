"""Rules of a cluster that say which jobs may be displaced: by VC (partition), QOS, user, account, or by lot."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Annotated, Any, Self

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from rltune.errors import InputError, unknown
from rltune.preemptibility import CHECKPOINT_S, RESTART_S, Floats
from rltune.text import percent, read_seconds, seconds

SCOPES = ("vc", "qos", "user", "account")  # columns of a job table that a rule may name
_BITS = 53  # as many as a float64 holds exactly
Seconds = Annotated[float, BeforeValidator(lambda given: read_seconds(given) if isinstance(given, str) else given)]


class PreemptionRule(BaseModel):
    """Whom a rule is about, and whether and at what cost they may be displaced; of several the first that fits counts.

    A job fits if it has one of the names in every list that is given and is drawn among the `share`. The lot is the
    job's own: it depends on its id and the seed, not on which other jobs or which window it is seen with. So with one
    seed those of a smaller share are among those of a larger one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    vc: tuple[str, ...] = ()  # or `partition`: the same column of a job table
    qos: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    account: tuple[str, ...] = ()
    share: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False, strict=True)] = 1.0
    seed: Annotated[int, Field(ge=0, strict=True)] = 0
    preemptible: Annotated[bool, Field(strict=True)] = True  # False: an exception from the rules below
    # Of work, in seconds or as "10m"; infinite: all is lost.
    checkpoint: Annotated[Seconds, Field(ge=0, strict=True)] = CHECKPOINT_S
    restart: Annotated[Seconds, Field(ge=0, allow_inf_nan=False, strict=True)] = RESTART_S

    @model_validator(mode="before")
    @classmethod
    def _known_words(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        for word in data:
            if word not in (known := (*cls.model_fields, "partition")):
                raise ValueError(str(unknown("setting of a preemption rule", word, known)))
        if "vc" in data and "partition" in data:
            raise ValueError("vc and partition name the same column of a job; give one of them")
        named = {("vc" if word == "partition" else word): value for word, value in data.items()}
        return {word: (value,) if word in SCOPES and isinstance(value, str) else value for word, value in named.items()}

    @model_validator(mode="after")
    def _costs_only_of_the_willing(self) -> Self:
        if not self.preemptible and self.model_fields_set & {"checkpoint", "restart"}:
            raise ValueError("a rule with preemptible = false takes no checkpoint and no restart")
        return self

    def __str__(self) -> str:
        who = ", ".join(f"{scope} {'|'.join(names)}" for scope in SCOPES if (names := getattr(self, scope)))
        whom = (
            f"{percent(self.share)} of {who or 'all jobs'} (seed {self.seed})" if self.share < 1 else who or "all jobs"
        )
        if not self.preemptible:
            return f"{whom}: not to be displaced"
        return f"{whom}: may be displaced, {costs(self.checkpoint, self.restart)}"


def costs(checkpoint_s: float, restart_s: float) -> str:
    """Return what it costs a job to be displaced."""
    if checkpoint_s == 0:
        lost = "no work lost"
    else:
        lost = f"checkpoints every {seconds(checkpoint_s)}" if np.isfinite(checkpoint_s) else "all work lost"
    return f"{lost}, restarts of {seconds(restart_s)}"


def lots(ids: Iterable[object], seed: int) -> Floats:
    """Draw a number from 0 to 1 for each job by a hash of its id and the seed."""
    drawn = (hashlib.blake2b(f"{seed}:{one}".encode(), digest_size=8).digest() for one in ids)
    return np.array([int.from_bytes(digest, "big") >> (64 - _BITS) for digest in drawn], dtype=np.float64) / 2.0**_BITS


def parse_lot(text: str) -> PreemptionRule:
    """Read `30%`, `0.3`, `all` or `none`, with `:seed=N` if told, as a rule about all jobs."""
    told, _, lot = text.strip().partition(":")
    name, _, seed = lot.partition("=")
    if lot and (name != "seed" or not seed.isdecimal()):
        raise _not_understood(text)
    words = {"all": 1.0, "none": 0.0}
    try:
        share = words[told] if told in words else float(told.removesuffix("%")) / (100 if told.endswith("%") else 1)
    except ValueError:
        raise _not_understood(text) from None
    if not 0 <= share <= 1:
        raise InputError(f"a share of {told} of the jobs cannot be preemptible; give 0% to 100%")
    return PreemptionRule(share=share, seed=int(seed or 0))


def _not_understood(text: str) -> InputError:
    return InputError(f"{text!r} does not say which jobs are preemptible; write 30%, 0.3, all, none or 30%:seed=1")
