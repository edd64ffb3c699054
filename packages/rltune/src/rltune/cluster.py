"""Clusters: groups of alike nodes, and what else a scheduler must know of the machine."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Collection
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from rltune.errors import InputError, nearest, unknown
from rltune.preemption_rules import PreemptionRule
from rltune.text import counted, cut, html_facts
from rltune.toml_file import toml_text
from rltune.toml_mistakes import told_mistake

_STRICT = ConfigDict(extra="forbid", frozen=True)
MOST_NODES, MOST_GPUS = 1_000_000, 100_000_000  # beyond that the tables of a run fill any memory
# Numbers are strict: `true` is no 1, and "8" is no 8.
Positive = Annotated[int, Field(gt=0, le=MOST_NODES, strict=True)]
NotNegative = Annotated[int, Field(ge=0, le=MOST_GPUS, strict=True)]
Amount = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]
Factor = Annotated[float, Field(ge=1, allow_inf_nan=False, strict=True)]
Weight = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]
Time = Annotated[float, Field(strict=True, allow_inf_nan=False)]


def same_name(one: str, other: str) -> bool:
    """Return whether two names are of one GPU type or partition: Slurm and people write a100 and A100."""
    return one.casefold() == other.casefold()


RANKING_ONLY = "ranking"  # a verdict of `rltune calibrate` on replays: for ranking, not for sizes of gains
NOT_USABLE = "neither"  # a verdict of `rltune calibrate` on replays: neither for ranking nor for sizes of gains


class NodeGroup(BaseModel):
    """Nodes that are alike."""

    model_config = _STRICT

    count: Positive
    gpus: NotNegative
    gpu_type: str = ""
    cpus: Amount | None = None  # of one node; None = not modelled, unlimited
    mem_gib: Amount | None = None
    vc: tuple[str, ...] = ()  # VCs or partitions that may use these nodes; none = all; several groups may share one
    rack: str = ""
    nodes_per_rack: NotNegative = 0  # 0 = the whole group is one rack
    name: str = ""

    @model_validator(mode="before")
    @classmethod
    def _one_vc_is_a_list(cls, data: object) -> object:
        if isinstance(data, dict) and isinstance(data.get("vc"), str):
            return {**data, "vc": (data["vc"],)}
        return data

    def admits(self, vc: str | None) -> bool:
        """Return whether jobs of a VC or partition may use these nodes."""
        return not self.vc or not vc or any(same_name(vc, own) for own in self.vc)

    def accepted(self, vc: str | None, gpu_types: Collection[str], *, with_gpus: bool) -> bool:
        """Return whether a job may run here, by its VC, the GPU types it accepts (none = any), and if it has GPUs."""
        right_type = not gpu_types or any(same_name(self.gpu_type, one) for one in gpu_types)
        return right_type and self.admits(vc) and (self.gpus > 0 or not with_gpus)


class Limit(BaseModel):
    """What one user, account, VC or QOS may have at once; `name = "*"` means each of them."""

    model_config = _STRICT

    scope: Literal["user", "account", "vc", "qos"]
    name: str = "*"
    max_gpus: NotNegative | None = None
    max_running: NotNegative | None = None
    max_submitted: NotNegative | None = None


class Maintenance(BaseModel):
    """A window [start_s, end_s) into which no job may be started to run."""

    model_config = _STRICT

    start_s: Time
    end_s: Time
    groups: tuple[NotNegative, ...] = ()  # indices of node groups; none = all

    @model_validator(mode="after")
    def _ends_after_start(self) -> Maintenance:
        if not self.end_s > self.start_s:
            raise ValueError("end_s must be after start_s")
        return self


class Outage(BaseModel):
    """A node that is down from down_s until up_s; jobs on it are requeued."""

    model_config = _STRICT

    node: NotNegative  # index over the whole cluster
    down_s: Time
    up_s: Annotated[float, Field(strict=True)] = float("inf")

    @model_validator(mode="after")
    def _comes_back_later(self) -> Outage:
        if not self.up_s > self.down_s:
            raise ValueError("up_s must be after down_s")
        return self


class Slowdown(BaseModel):
    """Factors by which a job runs longer; 1 = not at all. See docs/reference/placement.md."""

    model_config = _STRICT

    extra_node: Factor = 1.0  # for each node more than it needs
    extra_rack: Factor = 1.0  # for each rack more than it needs
    cpu_contention: Factor = 1.0  # where others hold all CPUs of a node
    mem_contention: Factor = 1.0


class Scheduler(BaseModel):
    """What orders the site's queue now; weights are those of policy multifactor on this cluster."""

    model_config = _STRICT

    policy: str = "multifactor"
    backfill: str = "easy"
    age: Weight = 1000.0
    fairshare: Weight = 1000.0
    job_size: Weight = 1000.0
    partition: Weight = 1000.0
    qos: Weight = 1000.0
    max_age_s: Amount = 7 * 86_400.0
    half_life_s: Amount = 7 * 86_400.0
    favor_small: bool = False
    partition_priority: dict[str, Weight] = {}
    qos_priority: dict[str, Weight] = {}

    @property
    def weights(self) -> dict[str, Any]:
        """Return what the file says of multifactor, by the names that the policy has for it."""
        return {name: getattr(self, name) for name in self.model_fields_set - {"policy", "backfill"}}


class _File(BaseModel):
    """The TOML of a cluster."""

    model_config = _STRICT

    name: str = ""
    about: str = ""
    group: tuple[NodeGroup, ...] = ()
    speed: dict[str, Amount] = {}
    limit: tuple[Limit, ...] = ()
    maintenance: tuple[Maintenance, ...] = ()
    outage: tuple[Outage, ...] = ()
    slowdown: Slowdown = Slowdown()
    preemption: tuple[PreemptionRule, ...] = ()
    scheduler: Scheduler | None = None
    calibrated: Annotated[bool, Field(strict=True)] = False
    usable_for: Literal["", "sizes of gains", "ranking", "neither"] = ""
    clock_s: Time | None = None


@dataclass(frozen=True)
class Cluster:
    """Node groups in order; nodes are numbered through them from 0."""

    groups: tuple[NodeGroup, ...]
    name: str = ""
    about: str = ""
    speed: dict[str, float] = field(default_factory=dict)  # by GPU type; 1 where not given
    limits: tuple[Limit, ...] = ()
    maintenance: tuple[Maintenance, ...] = ()
    outages: tuple[Outage, ...] = ()
    slowdown: Slowdown = field(default_factory=Slowdown)
    scheduler: Scheduler | None = None  # what orders the queue now, if the file says so
    preemption: tuple[PreemptionRule, ...] = ()  # who may be displaced; the first that fits a job counts
    calibrated: bool = False  # whether the file has what `rltune calibrate` found; changes no run
    usable_for: str = ""  # the verdict of `rltune calibrate` on replays with this file; "" = not told
    clock_s: float | None = None  # seconds since 1970 at time 0 of maintenance and outages; None = not told

    def __post_init__(self) -> None:
        if not self.groups:
            raise InputError("a cluster needs at least one node group: [[group]], with its count and gpus")
        if self.gpu_count > MOST_GPUS or self.node_count > MOST_NODES:
            size = f"{self.node_count:,} nodes with {self.gpu_count:,} GPUs"
            raise InputError(f"{size} are more than can be simulated; at most {MOST_NODES:,} with {MOST_GPUS:,}")
        for gpu_type in self.speed:
            if not any(same_name(gpu_type, own) for own in self.gpu_types):
                raise unknown("GPU type", gpu_type, self.gpu_types, "to give a speed for")
        for gpu_type, speed in self.speed.items():
            if not 0 < speed < float("inf"):
                raise InputError(f"the speed of GPU type {gpu_type} should be above 0 and finite, not {speed}")
        for window in self.maintenance:
            if any(not 0 <= g < len(self.groups) for g in window.groups):
                raise InputError(f"a maintenance window names group {max(window.groups)}, there are {len(self.groups)}")
        for outage in self.outages:
            if outage.node >= self.node_count:
                raise InputError(f"an outage names node {outage.node}, the last one is {self.node_count - 1}")

    @classmethod
    def uniform(cls, nodes: int, gpus: int, gpu_type: str | None = None) -> Cluster:
        """Make a cluster of alike nodes; CPUs and memory are not modelled."""
        if nodes < 1 or gpus < 0:
            raise InputError(f"a cluster of {nodes} nodes with {gpus} GPUs each cannot be")
        try:
            return cls((NodeGroup(count=nodes, gpus=gpus, gpu_type=gpu_type or ""),))
        except ValidationError as error:
            raise InputError(told_mistake(error, NodeGroup)) from None

    @classmethod
    def from_toml(cls, path: str | Path) -> Cluster:
        """Read a cluster from a TOML file."""
        return cls.from_text(toml_text(Path(path)), str(path))

    @classmethod
    def preset(cls, name: str) -> Cluster:
        """Return one of the clusters that come with the package; `Cluster.presets()` names them."""
        if name not in cls.presets():
            raise unknown("cluster preset", name, cls.presets())
        text = (resources.files("rltune") / "presets" / f"{name}.toml").read_text(encoding="utf-8")
        return cls.from_text(text, name)

    @staticmethod
    def presets() -> tuple[str, ...]:
        """Name the clusters that come with the package."""
        files = (resources.files("rltune") / "presets").iterdir()
        return tuple(sorted(f.name.removesuffix(".toml") for f in files if f.name.endswith(".toml")))

    @classmethod
    def load(cls, name_or_path: str) -> Cluster:
        """Take a preset by its name, or else a TOML file by its path."""
        if name_or_path in cls.presets():
            return cls.preset(name_or_path)
        if Path(name_or_path).exists():
            return cls.from_toml(name_or_path)
        if name_or_path.endswith(".toml") or Path(name_or_path).name != name_or_path:
            raise _no_file(Path(name_or_path), cls.presets())
        raise unknown("cluster", name_or_path, cls.presets(), more=", or your own as the path of a TOML file")

    @classmethod
    def text_of(cls, name_or_path: str) -> str:
        """Return the TOML of a preset or a file that `load` takes."""
        if name_or_path in cls.presets():
            return (resources.files("rltune") / "presets" / f"{name_or_path}.toml").read_text(encoding="utf-8")
        return toml_text(Path(name_or_path))

    @classmethod
    def from_text(cls, text: str, source: str) -> Cluster:
        """Read a cluster from TOML; mistakes are told with the name of its source."""
        try:
            file = _File.model_validate(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise InputError(_printed_by_slurm(text, source) or f"{source}: not valid TOML: {error}") from None
        except ValidationError as error:
            raise InputError(f"{source}: {told_mistake(error, _File)}") from None
        try:
            return cls(
                groups=file.group,
                name=file.name,
                about=file.about,
                speed=dict(file.speed),
                limits=file.limit,
                maintenance=file.maintenance,
                outages=file.outage,
                slowdown=file.slowdown,
                scheduler=file.scheduler,
                preemption=file.preemption,
                calibrated=file.calibrated,
                usable_for=file.usable_for,
                clock_s=file.clock_s,
            )
        except InputError as error:
            raise InputError(f"{source}: {error}") from None

    def __repr__(self) -> str:
        groups = cut([f"  {told}" for _, told in self._groups()], kind="more groups")
        rules = [f"  {name}: {told}" for name, told in self._rules()]
        return "\n".join([f"Cluster {self._title()}", *groups, *rules])

    def _repr_html_(self) -> str:
        return html_facts(f"Cluster {self._title()}", [*self._groups(), *self._rules()])

    def _title(self) -> str:
        size = f"{counted(self.node_count, 'node')}, {counted(self.gpu_count, 'GPU')}"
        return f"{self.name}: {size}" if self.name else f"of {size}"

    def _groups(self) -> list[tuple[str, str]]:
        return [(group.name or f"group {i}", _group_text(group)) for i, group in enumerate(self.groups)]

    def _rules(self) -> list[tuple[str, str]]:
        """Return what else there is but nodes."""
        speeds = ", ".join(f"{kind} {speed:g}" for kind, speed in self.speed.items())
        counts = {"limits": self.limits, "maintenance windows": self.maintenance, "outages": self.outages}
        told = [("speed", speeds)] if speeds else []
        told += [(name, f"{len(values):,}") for name, values in counts.items() if values]
        told += [("scheduler", f"{self.scheduler.policy} + {self.scheduler.backfill}")] if self.scheduler else []
        told += [("slowdown", str(self.slowdown))] if self.slowdown != Slowdown() else []
        return [*told, *(("preemption", str(rule)) for rule in self.preemption)]

    @property
    def believed(self) -> bool:
        """Return whether its replays tell something, as far as its file says."""
        return self.usable_for != NOT_USABLE

    @property
    def node_count(self) -> int:
        """Count the nodes."""
        return sum(g.count for g in self.groups)

    @property
    def gpu_count(self) -> int:
        """Count the GPUs."""
        return sum(g.count * g.gpus for g in self.groups)

    def speed_of(self, gpu_type: str) -> float:
        """Return the speed of a GPU type, 1 if none is given."""
        return next((speed for name, speed in self.speed.items() if same_name(name, gpu_type)), 1.0)

    @property
    def gpu_types(self) -> tuple[str, ...]:
        """Name the GPU types, in order of first appearance."""
        return tuple(dict.fromkeys(g.gpu_type for g in self.groups if g.gpu_type))

    @property
    def vcs(self) -> tuple[str, ...]:
        """Name the VCs, in order of first appearance."""
        return tuple(dict.fromkeys(vc for g in self.groups for vc in g.vc))


def _group_text(group: NodeGroup) -> str:
    parts = [f"{counted(group.count, 'node')} of {counted(group.gpus, f'{group.gpu_type} GPU'.strip())}"]
    parts += [f"{group.cpus:g} CPUs"] if group.cpus else []
    parts += [f"{group.mem_gib:g} GiB"] if group.mem_gib else []
    parts += [f"for {', '.join(group.vc)}"] if group.vc else []
    return ", ".join(parts)


def _printed_by_slurm(text: str, source: str) -> str:
    """Return what to do with the list of nodes that Slurm prints; "" if the text is none."""
    if not text.lstrip().startswith("NodeName="):
        return ""
    make = f"`rltune cluster import {shlex.quote(source)} -o cluster.toml`"
    return f"{source}: this looks like `scontrol show nodes`: make a cluster of it by {make}"


def _no_file(path: Path, presets: tuple[str, ...]) -> InputError:
    """Make the error for a cluster's file that is not there: the file or else the preset nearest to it, and presets."""
    files = [path.with_name(one.name) for one in path.parent.glob("*.toml")] if path.parent.is_dir() else []
    near = nearest(path.name, [one.name for one in files]) or nearest(path.stem, presets)
    meant = f"did you mean {path.with_name(near) if near not in presets else near}? " if near else ""
    return InputError(f"{path}: there is no such file; {meant}presets are: {', '.join(presets)}")
