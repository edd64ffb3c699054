"""How a controller is to behave: defaults, overridden by control.toml, overridden by the command line."""

from __future__ import annotations

import hashlib
import tomllib
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from rltune.engine.guard import get_guard
from rltune.errors import InputError

_STRICT = ConfigDict(extra="forbid", frozen=True)
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Names = tuple[str, ...]


class Mode(StrEnum):
    """How far the controller goes."""

    SHADOW = "shadow"  # decides and records
    ADVISE = "advise"  # also says which commands it would give
    ACT = "act"  # gives them


class Channel(StrEnum):
    """By which number of a job its place in the queue is changed."""

    SITE_FACTOR = "site-factor"
    PRIORITY = "priority"


class Steer(StrEnum):
    """How a job that should start now is led to its nodes."""

    OFF = "off"
    EXCLUDE = "exclude"
    PIN = "pin"


class PipelineSettings(BaseModel):
    """What decides; the same words as for `rltune simulate`."""

    model_config = _STRICT

    policy: str = "learned"
    backfill: str = "easy"
    placement: str = "best-fit"
    estimator: str = "user"
    head: str = "pool"
    view: Count = 0
    seed: Count = 0

    @field_validator("estimator")
    @classmethod
    def _is_known_live(cls, name: str) -> str:
        if name.partition(":")[0] not in {"user", "history", "boost"}:
            raise ValueError("nobody knows the true run times of a running cluster: take user, history or boost:TRACE")
        return name


class Scope(BaseModel):
    """Whose jobs may be touched. Every list that names something must be met; `"*"` means all.

    Without any list all are looked at, and none is acted on.
    """

    model_config = _STRICT

    partitions: Names = ()
    accounts: Names = ()
    qos: Names = ()
    not_partitions: Names = ()
    not_accounts: Names = ()
    not_qos: Names = ()

    @property
    def names_somebody(self) -> bool:
        """Return whether anybody has opted in."""
        return bool(self.partitions or self.accounts or self.qos)


class Canary(BaseModel):
    """Act on some jobs first. The others of the scope are what they are compared with."""

    model_config = _STRICT

    share: Share = 1.0  # of the jobs in scope, by a hash of their ids
    partition: str = ""  # or those of one partition
    min_jobs: Annotated[int, Field(ge=2)] = 50  # of each side, before anything is concluded
    worse_by: Annotated[float, Field(ge=0)] = 0.1  # of the others' mean that the canary's may be worse

    @property
    def on(self) -> bool:
        """Return whether only some jobs are acted on."""
        return self.share < 1.0 or bool(self.partition)


class Numbers(BaseModel):
    """How an order becomes numbers of Slurm's."""

    model_config = _STRICT

    channel: Channel = Channel.SITE_FACTOR
    band: Annotated[int, Field(ge=2, le=2_000_000_000)] = 10_000  # from the first job's number to the last one's
    slack: Share = 0.125  # of the band by which a number may be off before it is written again
    exact: Annotated[int, Field(ge=1)] = 64  # jobs, from the first, whose order is kept exactly
    drift: Share = 0.25  # of its place by which a job behind those may be off before it is written again


class Limits(BaseModel):
    """How much may be changed. 0 = no bound on ranks."""

    model_config = _STRICT

    changes_per_cycle: Annotated[int, Field(ge=1)] = 1000
    max_ranks: Count = 0  # from where Slurm alone has the job, among the jobs in scope
    max_ranks_per_cycle: Count = 0  # from where the job stood in the last cycle


class Safety(BaseModel):
    """What is promised to every waiting job, whatever the policy."""

    model_config = _STRICT

    guard: str = "24h:4x"  # how long a job may be overtaken, and which QOS come first; a policy's own guard wins

    @field_validator("guard")
    @classmethod
    def _is_understood(cls, text: str) -> str:
        try:
            return str(get_guard(text))
        except InputError as error:
            raise ValueError(str(error)) from None


class Health(BaseModel):
    """When the controller no longer trusts what it sees, and lets go of everything."""

    model_config = _STRICT

    max_decision_s: Seconds = 10.0
    max_failures: Annotated[int, Field(ge=1)] = 2  # looks in a row that failed
    max_clock_jump_s: Seconds = 30.0  # between the cluster's clock and ours, from one cycle to the next
    max_lost_share: Share = 0.2  # of the jobs or GPUs of the last look that are gone without a trace
    lost_matter_from: Annotated[int, Field(ge=1)] = 10
    recover_cycles: Annotated[int, Field(ge=1)] = 3  # good looks in a row before it acts again
    max_trips: Annotated[int, Field(ge=1)] = 5  # within a day; after these it stays in shadow until it is started again


class Keeping(BaseModel):
    """What the journal keeps."""

    model_config = _STRICT

    keep_days: Annotated[float, Field(gt=0)] = 30.0
    max_mib: Annotated[float, Field(gt=0)] = 2048.0
    history_jobs: Annotated[int, Field(ge=1)] = 50_000  # ended jobs, the newest, from which run times are learnt


class Gain(BaseModel):
    """The estimate of what acting wins: the jobs seen are replayed under Slurm's order and under ours."""

    model_config = _STRICT

    every_s: Seconds = 900.0
    jobs: Annotated[int, Field(ge=10)] = 3000  # the newest, at most


class ControlSettings(BaseModel):
    """Everything about a controller."""

    model_config = _STRICT

    mode: Mode = Mode.SHADOW
    cycle_s: Seconds = 60.0
    steer: Steer = Steer.EXCLUDE
    pipeline: PipelineSettings = PipelineSettings()
    scope: Scope = Scope()
    canary: Canary = Canary()
    numbers: Numbers = Numbers()
    limits: Limits = Limits()
    safety: Safety = Safety()
    health: Health = Health()
    journal: Keeping = Keeping()
    gain: Gain = Gain()

    @model_validator(mode="after")
    def _acts_for_somebody(self) -> ControlSettings:
        if self.mode is Mode.ACT and not self.scope.names_somebody:
            raise ValueError('to act, name whose jobs may be touched: partitions, accounts or qos (["*"] = all)')
        return self

    @classmethod
    def load(cls, path: Path | None, overrides: dict[str, Any] | None = None) -> ControlSettings:
        """Read control.toml, if there is one, and put the command line's words on top."""
        table = _merged(_read(path) if path else {}, overrides or {})
        try:
            return cls.model_validate(table)
        except ValidationError as error:
            problem = error.errors()[0]
            where = ".".join(str(part) for part in problem["loc"])
            message = problem["msg"].removeprefix("Value error, ")
            raise InputError(f"{path or 'control'}: {f'{where}: ' if where else ''}{message}") from None

    def digest(self) -> str:
        """Return a short name that only equal settings share."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not valid TOML: {error}") from None


def _merged(table: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    """Put nested overrides on top of a table, leaving None out."""
    result = dict(table)
    for key, value in overrides.items():
        if isinstance(value, dict):
            result[key] = _merged(result.get(key, {}), value)
        elif value is not None:
            result[key] = value
    return result
