"""Changes of a site: what is run, on what, under which rules. Each is made on a copy of cluster, jobs and pipeline."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rltune.cluster import MOST_GPUS, MOST_NODES, Cluster, Limit, NodeGroup, same_name
from rltune.engine.parse_pipeline import read_pipeline
from rltune.engine.pipeline import Pipeline
from rltune.engine.turns import get_turns
from rltune.errors import InputError, unknown
from rltune.jobs import TYPE_SEPARATOR, Jobs
from rltune.text import counted

_ONE_OF_EACH = ("pipeline", "turns", "load")
_NEW = ":new:"
_MOST = ("max_gpus", "max_running", "max_submitted")  # what a limit may bound
FORMS = (
    "pipeline=saf + easy, add=4x8:A100 (nodes x GPUs : type, or 4x8:A100@partition), remove=2:V100 (or 2x8:V100), "
    "retire=V100, "
    "drain=RACK, limit=user:*:gpus=16 (or running=, submitted=), cap=PARTITION:64, join=a|b, turns=las, load=+20%"
)


@dataclass(frozen=True)
class Site:
    """What a change is made of."""

    jobs: Jobs
    cluster: Cluster
    pipeline: Pipeline


@dataclass(frozen=True)
class Edit:
    """One change."""

    text: str
    make: Callable[[Site], Site]
    added: NodeGroup | None = None  # the nodes that it adds

    def __call__(self, site: Site) -> Site:
        """Return the site with the change made."""
        return self.make(site)


def parse_edit(text: str) -> Edit:
    """Read a change such as `add=4x8:A100` or `load=+20%`."""
    kind, _, value = text.partition("=")
    kind = kind.strip()
    if kind not in _KINDS or not value.strip():
        raise InputError(f"change {text!r} is not understood; write {FORMS}")
    added = new_nodes(value.strip(), text) if kind == "add" else None
    return Edit(text, _KINDS[kind](value.strip(), text), added)


def require_once(edits: Sequence[Edit]) -> None:
    """Refuse two changes of which the second would undo or repeat the first."""
    kinds = [edit.text.partition("=")[0].strip() for edit in edits]
    for kind in _ONE_OF_EACH:
        if kinds.count(kind) > 1:
            raise InputError(f"{kind}= is given twice; give it once")


def _pipeline(value: str, text: str) -> Callable[[Site], Site]:  # noqa: ARG001  all have the same form
    made = read_pipeline(value)
    return lambda site: replace(site, pipeline=replace(made, seed=site.pipeline.seed))


def _turns(value: str, text: str) -> Callable[[Site], Site]:  # noqa: ARG001
    turns = get_turns(value)

    def make(site: Site) -> Site:
        if not site.jobs.preemptible.any() and not site.cluster.preemption:
            raise InputError(f"turns={value}: no job may be displaced; say who may under [[preemption]] in the cluster")
        return replace(site, pipeline=replace(site.pipeline, turns=turns))

    return make


def new_nodes(value: str, text: str) -> NodeGroup:
    """Read nodes to add: 4x8:A100, 4x8:A100@partition; 4x8:new:A100 for a type that the cluster does not have."""
    match = re.fullmatch(r"(\d+)x(\d+)(?::(?:new:)?([^@:]+))?(?:@(.+))?", value)
    if match is None or int(match[1]) < 1 or (match[3] and not int(match[2])):
        raise InputError(f"{text}: nodes to add are written as 4x8:A100 (nodes x GPUs : type)")
    if int(match[1]) > MOST_NODES or int(match[1]) * int(match[2]) > MOST_GPUS:
        raise InputError(f"{text}: at most {MOST_NODES:,} nodes with {MOST_GPUS:,} GPUs can be simulated")
    vc = tuple(match[4].split("|")) if match[4] else ()
    return NodeGroup(count=int(match[1]), gpus=int(match[2]), gpu_type=match[3] or "", vc=vc, name="added")


def require_known_type(cluster: Cluster, group: NodeGroup, text: str) -> None:
    """Refuse nodes of a type that the cluster does not have, unless it is said to be new: it may be misspelt."""
    types = cluster.gpu_types
    if not types or not group.gpus or _NEW in text or any(same_name(group.gpu_type, one) for one in types):
        return
    if not group.gpu_type:
        raise InputError(
            f"{text}: says no GPU type; there are: {', '.join(types)}. Write {group.count}x{group.gpus}:{types[0]}"
        )
    new = f"{group.count}x{group.gpus}{_NEW}{group.gpu_type}"
    raise unknown("GPU type", group.gpu_type, types, f"({text})", more=f". If it is to be a new one, write {new}")


def _add(value: str, text: str) -> Callable[[Site], Site]:
    group = new_nodes(value, text)

    def make(site: Site) -> Site:
        for name in group.vc:
            _require_partition(site, name)
        require_known_type(site.cluster, group, text)
        return replace(site, cluster=with_nodes(site.cluster, group))

    return make


def notes_on_types(site: Site, edits: Sequence[Edit]) -> list[str]:
    """Return a note for each type of GPU to add that the cluster does not have."""
    return [note for edit in edits if edit.added is not None for note in note_on_type(site, edit.added)]


def note_on_type(site: Site, added: NodeGroup) -> list[str]:
    """Return a sentence that the cluster has no GPUs of a type to add, and how many jobs may use them all the same."""
    types = site.cluster.gpu_types
    if not added.gpu_type or not types or any(same_name(added.gpu_type, one) for one in types):
        return []
    jobs = site.jobs
    kinds, kind = np.unique(np.stack([jobs.vc.codes, jobs.gpu_types.codes], axis=1), axis=0, return_inverse=True)
    first = [int(np.argmax(kind.ravel() == k)) for k in range(len(kinds))]
    fits = np.array([_may_use(jobs, row, added) for row in first])[kind.ravel()] & (jobs.gpus > 0)
    who = f"{int(fits.sum()):,} of {int((jobs.gpus > 0).sum()):,} jobs with GPUs may use it"
    speed = "it is taken to be as fast as a type without a [speed]"
    return [f"no node has GPU type {added.gpu_type} now (there are {', '.join(types)}): {who}, and {speed}"]


def _may_use(jobs: Jobs, row: int, group: NodeGroup) -> bool:
    types = [name for name in jobs.gpu_types.name_of(row).split(TYPE_SEPARATOR) if name]
    return group.accepted(jobs.vc.name_of(row), types, with_gpus=True)


def _require_partition(site: Site, name: str) -> None:
    known = dict.fromkeys((*site.cluster.vcs, *site.jobs.vc.names))
    if not any(same_name(name, vc) for vc in known):
        raise unknown("partition", name, known)


def with_nodes(cluster: Cluster, group: NodeGroup) -> Cluster:
    """Return the cluster with nodes added behind all others; CPUs and memory as on nodes with as many GPUs."""
    alike = [g for g in cluster.groups if g.gpus == group.gpus]
    own_type = [g for g in alike if same_name(g.gpu_type, group.gpu_type)]
    like = next(iter(own_type or alike), None)
    if like is not None:
        group = group.model_copy(update={"cpus": like.cpus, "mem_gib": like.mem_gib})
    return replace(cluster, groups=(*cluster.groups, group))


@dataclass(frozen=True)
class Removal:
    """So many nodes to take away: of a type, of a size, or of both."""

    count: int
    kind: str  # "" = any
    gpus: int | None  # None = any

    @classmethod
    def parse(cls, value: str, text: str) -> Removal:
        """Read 2:V100, 2x8:V100 or 2x8, as nodes to add are written."""
        match = re.fullmatch(r"(\d+)(?:x(\d+))?(?::([^:@]+))?", value)
        if match is None or int(match[1]) < 1 or (match[2] is None and match[3] is None):
            raise InputError(f"{text}: nodes to remove are written as 2:V100, 2x8:V100 or 2x8")
        return cls(int(match[1]), match[3] or "", None if match[2] is None else int(match[2]))

    def takes(self, group: NodeGroup) -> bool:
        """Return whether nodes of a group are meant."""
        right_type = not self.kind or same_name(group.gpu_type, self.kind)
        return right_type and (self.gpus is None or group.gpus == self.gpus)

    def __str__(self) -> str:
        size = "" if self.gpus is None else f" with {counted(self.gpus, 'GPU')}"
        return f"of {self.kind}{size}" if self.kind else size.strip()


def _remove(value: str, text: str) -> Callable[[Site], Site]:
    wanted = Removal.parse(value, text)

    def make(site: Site) -> Site:
        return replace(site, cluster=without_nodes(site.cluster, _last_of(site.cluster, wanted, text), text))

    return make


def _last_of(cluster: Cluster, wanted: Removal, text: str) -> list[int]:
    if wanted.kind:
        _of_type(cluster, wanted.kind)  # or it says which there are
    rows = [node for group, node in _nodes(cluster) if wanted.takes(group)]
    if wanted.count > len(rows):
        raise InputError(f"{text}: there are only {counted(len(rows), 'node')} {wanted}")
    return rows[len(rows) - wanted.count :]


def notes_on_removals(site: Site, edits: Sequence[Edit]) -> list[str]:
    """Return for each removal by number which nodes it takes: nodes of one type may differ in size."""
    notes = []
    for edit in edits:
        kind, _, value = edit.text.partition("=")
        if kind.strip() == "remove":
            notes.append(
                f"{edit.text} takes the last of its kind in the cluster's file: {_sizes(site, value, edit.text)}"
            )
        site = edit(site)
    return notes


def _sizes(site: Site, value: str, text: str) -> str:
    gone = set(_last_of(site.cluster, Removal.parse(value.strip(), text), text))
    sizes = [group.gpus for group, node in _nodes(site.cluster) if node in gone]
    told = (f"{counted(sizes.count(size), 'node')} of {size} GPUs" for size in sorted(set(sizes)))
    return " and ".join(told) or "none"


def _retire(value: str, text: str) -> Callable[[Site], Site]:
    return lambda site: replace(site, cluster=without_nodes(site.cluster, _of_type(site.cluster, value), text))


def _drain(value: str, text: str) -> Callable[[Site], Site]:
    def make(site: Site) -> Site:
        named = [(g.rack, n) for g, n in _nodes(site.cluster)]
        if value not in {rack for rack, _ in named}:
            raise unknown("rack", value, sorted({rack for rack, _ in named if rack}))
        return replace(site, cluster=without_nodes(site.cluster, [n for rack, n in named if rack == value], text))

    return make


def _nodes(cluster: Cluster) -> list[tuple[NodeGroup, int]]:
    groups = [group for group in cluster.groups for _ in range(group.count)]
    return [(group, node) for node, group in enumerate(groups)]


def _of_type(cluster: Cluster, kind: str) -> list[int]:
    found = [node for group, node in _nodes(cluster) if same_name(group.gpu_type, kind)]
    if not found:
        raise unknown("GPU type", kind, cluster.gpu_types)
    return found


def without_nodes(cluster: Cluster, nodes: list[int], text: str) -> Cluster:
    """Return the cluster without some nodes. Outages name nodes by number, so they are kept for those that stay."""
    gone = set(nodes)
    kept: list[NodeGroup] = []
    renamed: dict[int, int] = {}
    first, groups_kept = 0, []
    for g, group in enumerate(cluster.groups):
        stay = [node for node in range(first, first + group.count) if node not in gone]
        first += group.count
        renamed |= {node: len(renamed) + i for i, node in enumerate(stay)}
        if stay:
            kept.append(group.model_copy(update={"count": len(stay)}))
            groups_kept.append(g)
    if not kept:
        raise InputError(f"{text}: no node would be left")
    place = {g: i for i, g in enumerate(groups_kept)}
    windows = tuple(
        w.model_copy(update={"groups": tuple(place[g] for g in w.groups if g in place)})
        for w in cluster.maintenance
        if not w.groups or any(g in place for g in w.groups)
    )
    outages = tuple(o.model_copy(update={"node": renamed[o.node]}) for o in cluster.outages if o.node in renamed)
    types = {group.gpu_type.casefold() for group in kept}
    speed = {name: value for name, value in cluster.speed.items() if name.casefold() in types}
    return replace(cluster, groups=tuple(kept), maintenance=windows, outages=outages, speed=speed)


def _limit(value: str, text: str) -> Callable[[Site], Site]:
    match = re.fullmatch(r"(user|account|vc|partition|qos):([^:]+):(gpus|running|submitted)=(\d+)", value)
    if match is None:
        raise InputError(f"{text}: a limit is written as limit=user:*:gpus=16, with user, account, partition or qos")
    scope = "vc" if match[1] == "partition" else match[1]
    limit = Limit.model_validate({"scope": scope, "name": match[2], f"max_{match[3]}": int(match[4])})
    return lambda site: replace(site, cluster=replace(site.cluster, limits=_limited(site.cluster, limit, text)))


def _limited(cluster: Cluster, limit: Limit, text: str) -> tuple[Limit, ...]:
    """Return a cluster's limits with this one in place of what it says of the same; one for each holds beside it."""
    (field,) = (name for name in _MOST if getattr(limit, name) is not None)
    kept = [
        old.model_copy(update={field: None}) if old.scope == limit.scope and same_name(old.name, limit.name) else old
        for old in cluster.limits
    ]
    each = [getattr(o, field) for o in kept if o.scope == limit.scope and o.name == "*" and limit.name != "*"]
    lower = [most for most in each if most is not None and most < getattr(limit, field)]
    if lower:
        told = f"each {limit.scope} may have {min(lower)} by the cluster's limits, which would hold all the same"
        raise InputError(f"{text}: {told}; change that one as well, by limit={limit.scope}:*:...")
    return (*(o for o in kept if any(getattr(o, name) is not None for name in _MOST)), limit)


def _cap(value: str, text: str) -> Callable[[Site], Site]:
    name, _, gpus = value.rpartition(":")
    if not name or not gpus.isdecimal():
        raise InputError(f"{text}: a cap is written as cap=PARTITION:64 (GPUs)")
    limit = Limit(scope="vc", name=name, max_gpus=int(gpus))

    def make(site: Site) -> Site:
        _require_partition(site, name)
        return replace(site, cluster=replace(site.cluster, limits=_limited(site.cluster, limit, text)))

    return make


def _join(value: str, text: str) -> Callable[[Site], Site]:
    names = [name.strip() for name in value.split("|")]

    def make(site: Site) -> Site:
        lacking = [name for name in names if not any(same_name(name, vc) for vc in site.cluster.vcs)]
        if len(names) < 2 or lacking:
            there = f"there are: {', '.join(site.cluster.vcs)}" if site.cluster.vcs else "the cluster names none"
            raise InputError(f"{text}: partitions to join are written as join=a|b; {there}")
        groups = tuple(
            g.model_copy(update={"vc": (*g.vc, *(n for n in names if not any(same_name(n, own) for own in g.vc)))})
            if any(same_name(n, own) for n in names for own in g.vc)
            else g
            for g in site.cluster.groups
        )
        return replace(site, cluster=replace(site.cluster, groups=groups))

    return make


def _load(value: str, text: str) -> Callable[[Site], Site]:
    match = re.fullmatch(r"([+-]\d+(?:\.\d+)?)\s*%", value)
    if match is None or float(match[1]) <= -100:
        raise InputError(f"{text}: load is written as load=+20% or load=-10%")
    factor = 1 + float(match[1]) / 100

    def make(site: Site) -> Site:
        first = float(site.jobs.submit_s.min(initial=0.0))
        sooner = first + (site.jobs.submit_s - first) / factor
        nothing = np.full(len(site.jobs), np.nan)
        jobs = site.jobs.with_columns(submit_s=sooner, recorded_start_s=nothing, recorded_eligible_s=nothing)
        return replace(site, jobs=jobs)

    return make


_KINDS: dict[str, Callable[[str, str], Callable[[Site], Site]]] = {
    "pipeline": _pipeline,
    "turns": _turns,
    "add": _add,
    "remove": _remove,
    "retire": _retire,
    "drain": _drain,
    "limit": _limit,
    "cap": _cap,
    "join": _join,
    "load": _load,
}
