"""How a controller is to behave. What nine of ten sites never touch is under `advanced`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from rltune.engine.guard import get_guard
from rltune.errors import InputError
from rltune.live.rest_place import RestPlace
from rltune.preemption_rules import Seconds as Told

_STRICT = ConfigDict(extra="forbid", frozen=True)
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Time = Annotated[Told, Field(ge=0)]  # in seconds, or as "10m"
Finite = Annotated[Told, Field(ge=0, allow_inf_nan=False)]
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


LIVE = frozenset({"user", "history", "predicted", "last2", "file", "boost"})  # estimators of a running cluster
OF_THE_PAST = frozenset({"oracle", "noisy", "column"})  # that know how long jobs of a history ran


class PipelineSettings(BaseModel):
    """What decides; the same words as for `rltune simulate`."""

    model_config = _STRICT

    policy: str = "portfolio"
    backfill: str = "easy"
    placement: str = "best-fit"
    estimator: str = "user"

    @field_validator("estimator")
    @classmethod
    def _is_known_live(cls, name: str) -> str:
        known = "take user, history, predicted, last2, blend:user+predicted or file:PATH"
        for part in name.removeprefix("blend:").split("+") if name.startswith("blend:") else [name]:
            kind = part.partition(":")[0]
            if kind in OF_THE_PAST:
                raise ValueError(f"nobody knows the true run times of a running cluster: {known}")
            if kind not in LIVE:
                raise ValueError(f"there is no estimator {part!r} for a running cluster: {known}")
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
    widen: bool = True  # by itself, once it is shown to do no worse: three times the share, or all partitions

    @property
    def on(self) -> bool:
        """Return whether only some jobs are acted on."""
        return self.share < 1.0 or bool(self.partition)


class Numbers(BaseModel):
    """How an order becomes numbers of Slurm's."""

    model_config = _STRICT

    channel: Channel = Channel.SITE_FACTOR
    band: Annotated[int, Field(ge=2, le=2_000_000_000)] = 10_000  # from the first job's number to the last one's


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


class PreemptSettings(BaseModel):
    """Whether running jobs that have agreed to it give way to waiting ones, and within which bounds."""

    model_config = _STRICT

    order: Literal["off", "las", "gittins", "srsf", "policy"] = "off"  # who comes before whom, as for `rltune simulate`
    qos: Names = ()  # jobs of these have agreed,
    partitions: Names = ()  # and those that run in one of these,
    comment: str = ""  # and those with this word in their --comment
    checkpoint: Time = 600.0  # of work that lies between two checkpoints: what a job can lose, "inf" = all
    restart: Finite = 120.0  # that it holds its GPUs without progress before it goes on
    min_run: Finite = 600.0  # of a spell, restart apart, before it may be cut short
    max_preemptions: Count = 5  # of one job,
    max_a_day: Count = 3  # and of one job within 24 hours
    late: Time = 172_800.0  # by which a job may end later for giving way; then it comes first. "inf" = any
    per_cycle: Annotated[int, Field(ge=1)] = 2  # jobs that may be stopped in one cycle
    patience_cycles: Annotated[int, Field(ge=1)] = 3  # after KillWait, in which the waiting job must have started
    pause: Finite = 3600.0  # for which nobody gives way after one has not

    @property
    def on(self) -> bool:
        """Return whether anybody gives way at all."""
        return self.order != "off"

    @model_validator(mode="after")
    def _somebody_agreed(self) -> PreemptSettings:
        if self.on and not (self.qos or self.partitions or self.comment):
            raise ValueError("to let jobs give way, name by what they agree to it: qos, partitions or comment")
        if len(self.comment.split()) > 1:
            raise ValueError(f"comment should be one word, not {self.comment!r}")
        return self


class Keeping(BaseModel):
    """What the journal keeps."""

    model_config = _STRICT

    keep_days: Annotated[float, Field(gt=0)] = 30.0
    max_mib: Annotated[float, Field(gt=0)] = 2048.0


class CoreSettings(BaseModel):
    """What of the pipeline is hardly ever changed."""

    model_config = _STRICT

    head: str = "pool"
    view: Count = 0
    seed: Count = 0
    solver_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 2.0  # of a cycle, for the solver of placement milp


class CanaryTest(BaseModel):
    """When the canary is found to do worse."""

    model_config = _STRICT

    min_jobs: Annotated[int, Field(ge=2)] = 50  # of each side, before anything is concluded
    worse_by: Annotated[float, Field(ge=0)] = 0.1  # of the others' mean that the canary's may be worse


class Closeness(BaseModel):
    """How exactly numbers follow the order."""

    model_config = _STRICT

    slack: Share = 0.125  # of the band by which a number may be off before it is written again
    exact: Annotated[int, Field(ge=1)] = 64  # jobs, from the first, whose order is kept exactly
    drift: Share = 0.25  # of its place by which a job behind those may be off before it is written again


class Limits(BaseModel):
    """How much may be changed. 0 = no bound on ranks."""

    model_config = _STRICT

    changes_per_cycle: Annotated[int, Field(ge=1)] = 1000
    max_ranks: Count = 0  # from where Slurm alone has the job, among the jobs in scope
    max_ranks_per_cycle: Count = 0  # from where the job stood in the last cycle


class Health(BaseModel):
    """When the controller no longer trusts what it sees, and lets go of everything."""

    model_config = _STRICT

    max_decision_s: Seconds = 10.0
    max_failures: Annotated[int, Field(ge=1)] = 2  # looks in a row that failed
    max_disorders: Annotated[int, Field(ge=1)] = 3  # times in a row that Slurm does not hold the order meant
    max_overruns: Annotated[int, Field(ge=1)] = 3  # cycles in a row that took longer than from one look to the next
    max_clock_jump_s: Seconds = 30.0  # between the cluster's clock and ours, from one cycle to the next
    max_lost_share: Share = 0.2  # of the jobs or GPUs of the last look that are gone without a trace
    lost_matter_from: Annotated[int, Field(ge=1)] = 10
    recover_cycles: Annotated[int, Field(ge=1)] = 3  # good looks in a row before it acts again
    max_trips: Annotated[int, Field(ge=1)] = 5  # within a day; after these it stays in shadow until it is started again


class HistorySettings(BaseModel):
    """What run times are learnt from."""

    model_config = _STRICT

    history_jobs: Annotated[int, Field(ge=1)] = 50_000  # ended jobs, the newest


class GainSettings(BaseModel):
    """The estimate of what acting wins: the jobs seen are replayed under Slurm's order and under ours."""

    model_config = _STRICT

    every_s: Seconds = 900.0
    jobs: Annotated[int, Field(ge=10)] = 3000  # the newest, at most


class SlurmSettings(BaseModel):
    """How Slurm is reached: by its commands, or through a slurmrestd."""

    model_config = _STRICT

    rest: str = ""  # where slurmrestd is: http://HOST:PORT, https://HOST:PORT or unix:/PATH; "" = Slurm's commands
    token: str = ""  # the file with a token for it, read before every look
    user: str = ""  # whose token it is, where it does not say so itself
    ca: str = ""  # the file with the certificate of who signed the server's, for https

    @model_validator(mode="after")
    def _is_understood(self) -> SlurmSettings:
        try:
            self.place()
        except InputError as error:
            raise ValueError(str(error)) from None
        return self

    def place(self) -> RestPlace | None:
        """Return where slurmrestd is; None for Slurm's commands."""
        return RestPlace.of(self.model_dump())


class Advanced(BaseModel):
    """What nine of ten sites never touch, under the names of the tables that it belongs to."""

    model_config = _STRICT

    pipeline: CoreSettings = CoreSettings()
    canary: CanaryTest = CanaryTest()
    numbers: Closeness = Closeness()
    limits: Limits = Limits()
    health: Health = Health()
    journal: HistorySettings = HistorySettings()
    gain: GainSettings = GainSettings()


class ControlSettings(BaseModel):
    """Everything about a controller."""

    model_config = _STRICT

    mode: Mode = Mode.SHADOW
    cycle_s: Seconds = 60.0
    steer: Steer = Steer.EXCLUDE
    tell_users: bool = False  # in AdminComment who moved a job and why; needs Administrator
    slurm: SlurmSettings = SlurmSettings()
    pipeline: PipelineSettings = PipelineSettings()
    scope: Scope = Scope()
    canary: Canary = Canary()
    numbers: Numbers = Numbers()
    safety: Safety = Safety()
    preempt: PreemptSettings = PreemptSettings()
    journal: Keeping = Keeping()
    advanced: Advanced = Advanced()

    @model_validator(mode="before")
    @classmethod
    def _as_written_before(cls, table: Any) -> Any:
        """Take what older files and journals have beside the rest to where it is now."""
        of_tables = isinstance(table, dict) and isinstance(table.get("advanced", {}), dict)
        return _with_advanced_apart(table) if of_tables else table

    @model_validator(mode="after")
    def _acts_for_somebody(self) -> ControlSettings:
        if self.mode is Mode.ACT and not self.scope.names_somebody:
            raise ValueError('to act, name whose jobs may be touched: partitions, accounts or qos (["*"] = all)')
        return self


def _with_advanced_apart(table: dict[str, Any]) -> dict[str, Any]:
    """Move advanced keys of ordinary tables, where they were once written, below `advanced`; what is there wins."""
    plain, advanced = dict(table), dict(table.get("advanced", {}))
    for section, of in Advanced.model_fields.items():
        given = plain.get(section)
        if not isinstance(given, dict) or not isinstance(advanced.get(section, {}), dict):
            continue
        known = of.annotation.model_fields  # type: ignore[union-attr]
        advanced[section] = {**{k: v for k, v in given.items() if k in known}, **advanced.get(section, {})}
        plain[section] = {k: v for k, v in given.items() if k not in known}
        if not plain[section]:
            del plain[section]
    return {**plain, "advanced": advanced}
