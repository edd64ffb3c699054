"""From Slurm's JSON to a snapshot's values: pure functions, fed with what the commands printed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rltune.hostlist import expand
from rltune.live.see.backend import BackendError
from rltune.live.see.snapshot import NAN, ON_NODES, PENDING, LiveJob, LiveNode, PriorityParts, Reservation
from rltune.live.slurm.dialect import Dialect, Record, dialect_of
from rltune.live.slurm.gres import Gpus, parse_gpus
from rltune.trace.tres import Tres, parse_tres

MIB_A_GIB = 1024.0
# Words of a node's state that keep new jobs away.
_AWAY = frozenset(
    {
        "DOWN",
        "UNKNOWN",
        "ERROR",
        "FUTURE",
        "DRAIN",
        "FAIL",
        "NOT_RESPONDING",
        "INVALID_REG",
        "MAINTENANCE",
        "POWERED_DOWN",
        "POWERING_DOWN",
        "POWER_DOWN",
        "POWER_DRAIN",
        "REBOOT_ISSUED",
    }
)
_OVERRIDES = ("COMPLETING", "CONFIGURING")  # flags that say more than the base state they stand beside
_TASKS = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")


def answer_of(text: str, command: str, key: str) -> dict[str, Any]:
    """Read a command's JSON; an answer with errors, or without what was asked for, is none."""
    try:
        answer = json.loads(text)
    except ValueError:
        raise BackendError(f"{command} did not print JSON but: {text[:100]!r}") from None
    require_whole(answer, command, key)
    return dict(answer)


def require_whole(answer: Mapping[str, Any], who: str, key: str) -> None:
    """Refuse an answer with errors, or without what was asked for."""
    if errors := answer.get("errors"):
        raise BackendError(f"{who} reports: {'; '.join(map(error_sentence, errors))}")
    if not isinstance(answer.get(key), list):
        raise BackendError(f"{who} printed no {key}")


def jobs_of(answer: Mapping[str, Any], factors: Mapping[int, PriorityParts] | None = None) -> tuple[LiveJob, ...]:
    """Read the jobs of squeue's answer; `factors` are sprio's: site factor, and whether the priority is by hand."""
    dialect = dialect_of(answer)
    return tuple(_job(record, dialect, factors or {}) for record in answer["jobs"])


def nodes_of(answer: Mapping[str, Any], reserved: Sequence[Reservation] = (), now_s: float = 0.0) -> list[LiveNode]:
    """Read the nodes of an answer; which reservation holds a node now is taken from the reservations."""
    dialect = dialect_of(answer)
    holder = {name: r.name for r in reserved if r.start_s <= now_s < r.end_s for name in r.node_names}
    return [_node(record, dialect, holder) for record in answer["nodes"]]


def _job(record: Record, dialect: Dialect, factors: Mapping[int, PriorityParts]) -> LiveJob:
    try:
        return _job_or_fail(record, dialect, factors)
    except (KeyError, TypeError, ValueError) as error:
        who = record.get("job_id", "without a number")
        raise BackendError(f"squeue told of job {who} what cannot be read: {error!r}") from error


def _job_or_fail(record: Record, dialect: Dialect, factors: Mapping[int, PriorityParts]) -> LiveJob:
    number = dialect.number
    state = _base_state(dialect.words(record, "job_state", ""))
    asked, asked_tres = _asked(record, number), parse_tres(record["tres_req_str"])
    given, given_tres = _given(record), parse_tres(record["tres_alloc_str"])
    on_nodes, pending = state in ON_NODES, state == PENDING
    nodes = _whole(number(record["node_count"]))
    array_id, task = _whole(number(record["array_job_id"])), number(record["array_task_id"])
    tasks = record["array_task_string"]
    eligible_s = _time(number(record["eligible_time"]))
    job_id, reason = int(record["job_id"]), record["state_reason"]
    priority = _whole(number(record["priority"]))
    told = factors.get(job_id)
    return LiveJob(
        id=job_id,
        ref=_ref(array_id, task, tasks),
        name=record["name"],
        user=record["user_name"],
        account=record["account"] or "",
        partitions=tuple(filter(None, record["partition"].split(","))),
        qos=record["qos"] or "",
        state=state,
        reason=reason,
        submit_s=_time(number(record["submit_time"])),
        eligible_s=eligible_s,
        start_s=NAN if pending else _time(number(record["start_time"])),
        end_s=NAN if pending or on_nodes else _time(number(record["end_time"])),
        limit_s=finite(60 * number(record["time_limit"])),
        gpus=_gpu_count(given, given_tres, on_nodes=not pending) or _asked_count(asked, asked_tres, record, nodes),
        gpu_types=asked.types or asked_tres.types,
        nodes=_nodes_asked(record, number, nodes) if pending else nodes,
        gpus_per_node=parse_gpus(record["tres_per_node"]).count,
        cpus=finite(number(record["cpus"])),
        mem_gib=_memory(record, dialect, asked, asked_tres, nodes),
        exclusive=dialect.is_exclusive(record),
        shares_gpu=asked.shared or given.shared or asked_tres.shards > 0,
        node_names=expand(record["nodes"]) if not pending else (),
        gpus_by_node=tuple(parse_gpus(detail).count for detail in record["gres_detail"]) if on_nodes else (),
        priority=priority,
        priority_by_hand=told.by_hand if told else None,
        site_factor=told.site if told else None,
        other_factors=told.others if told else None,
        nice=_signed(_whole(number(record["nice"]))),
        held=pending and _is_held(record, reason, priority),
        dependency=record["dependency"],
        array_id=array_id,
        array_tasks=tasks,
        array_waiting=count_tasks(tasks),
        array_throttle=_whole(number(record["array_max_tasks"])),
        het_id=_whole(number(record["het_job_id"])),
        features=record["features"],
        required_nodes=expand(record["required_nodes"]),
        excluded_nodes=expand(record["excluded_nodes"]),
        reservation=record["resv_name"],
        begin_s=eligible_s if pending and reason == "BeginTime" else NAN,
        restarts=_whole(number(record["restart_cnt"])),
        requeue=bool(record.get("requeue")),
        comment=_comment(record.get("comment"), "job"),
        admin_comment=_comment(_admin_comment(record), "administrator").strip('"'),
    )


def _node(record: Record, dialect: Dialect, holder: Mapping[str, str]) -> LiveNode:
    try:
        words = dialect.words(record, "state", "state_flags")
        total, used = parse_gpus(record["gres"]), parse_gpus(record["gres_used"])
        name = record["name"]
        return LiveNode(
            name=name,
            gpu_type="+".join(total.types),
            gpus=total.count,
            cpus=float(record.get("effective_cpus") or record["cpus"]),
            mem_gib=record["real_memory"] / MIB_A_GIB,
            gpus_used=used.count,
            cpus_used=float(record["alloc_cpus"]),
            mem_used_gib=record["alloc_memory"] / MIB_A_GIB,
            state="+".join(words),
            up=takes_jobs(words),
            partitions=tuple(record["partitions"]),
            features=_features(record["active_features"]),
            reservation=record.get("reservation") or holder.get(name, ""),
            shares_gpus=total.shared,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BackendError(f"Slurm told of node {record.get('name', '?')} what cannot be read: {error!r}") from error


def takes_jobs(words: Iterable[str]) -> bool:
    """Return whether a node in this state takes new jobs."""
    return _AWAY.isdisjoint(words)


def _base_state(words: tuple[str, ...]) -> str:
    return next((word for word in _OVERRIDES if word in words), words[0])


def _asked(record: Record, number: Any) -> Gpus:
    """Find in which place, and of which type, GPUs are asked for; a count a task is multiplied."""
    for place in ("tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket"):
        found = parse_gpus(record[place])
        if place == "tres_per_task":
            tasks = max(1, _whole(number(record["tasks"])))
            found = Gpus(tuple((kind, count * tasks) for kind, count in found.by_type), found.shared)
        if found.by_type or found.shared:
            return found
    return Gpus()


def _given(record: Record) -> Gpus:
    """Add up what a running job has on its nodes."""
    parts = [parse_gpus(detail) for detail in record["gres_detail"]]
    return Gpus(tuple(pair for part in parts for pair in part.by_type), any(part.shared for part in parts))


def _gpu_count(given: Gpus, given_tres: Tres, *, on_nodes: bool) -> int:
    return given.count or int(given_tres.gpus) if on_nodes else 0


def _asked_count(asked: Gpus, tres: Tres, record: Record, nodes: int) -> int:
    """Count the GPUs in all: Slurm does it where accounting counts GPUs."""
    if tres.gpus:
        return int(tres.gpus)
    return asked.count * max(1, nodes) if record["tres_per_node"] else asked.count


def _nodes_asked(record: Record, number: Any, nodes: int) -> int:
    """Return how many nodes a waiting job wants; 0 if it gave no number and does not ask for GPUs a node."""
    fixed = _whole(number(record["max_nodes"])) > 0 or bool(record["tres_per_node"])
    return nodes if fixed else 0


def _memory(record: Record, dialect: Dialect, asked: Gpus, tres: Tres, nodes: int) -> float:
    """Return the memory asked for, over all nodes; NaN if the job left it to Slurm."""
    number = dialect.number
    per_gpu = parse_gpus(record["memory_per_tres"])  # MiB in the place of a count
    if per_gpu.by_type:  # first, since newer releases repeat it as if it were the memory of a node
        return per_gpu.count * _asked_count(asked, tres, record, nodes) / MIB_A_GIB
    if (per_node := number(record["memory_per_node"])) > 0:
        return finite(per_node * max(1, nodes) / MIB_A_GIB)
    if (per_cpu := number(record["memory_per_cpu"])) > 0:
        return finite(per_cpu * number(record["cpus"]) / MIB_A_GIB)
    return NAN


def _is_held(record: Record, reason: str, priority: int) -> bool:
    """Return whether a job is held, and not one that Slurm set to 0 because its constraints cannot be met."""
    return bool(record.get("hold")) or reason.startswith("JobHeld") or (priority == 0 and reason != "BadConstraints")


def _ref(array_id: int, task: float, tasks: str) -> str:
    """Name array tasks so that the rest of the array is left alone."""
    if not array_id:
        return ""
    if tasks:
        return f"{array_id}_[{','.join(map(_without_step, _pieces(tasks)))}]"
    return "" if math.isnan(task) else f"{array_id}_{int(task)}"


def count_tasks(text: str) -> int:
    """Count the tasks of `1-5,8-20:4%2`; a list that Slurm cut short with `...` counts as far as it goes."""
    return sum(len(_tasks_of(piece)) for piece in _pieces(text))


def _pieces(tasks: str) -> list[str]:
    """Cut a list of tasks at its commas, without the throttle."""
    return tasks.partition("%")[0].split(",")


def _tasks_of(piece: str) -> range:
    """Return the tasks of `3`, `3-9` or `3-9:2`; none of what is no such piece."""
    match = _TASKS.fullmatch(piece)
    if not match:
        return range(0)
    return range(int(match[1]), int(match[2] or match[1]) + 1, int(match[3] or 1))


def _without_step(piece: str) -> str:
    """Spell `3-9:2` as `3,5,7,9`: Slurm prints steps, and takes none in the name of a job."""
    return ",".join(map(str, _tasks_of(piece))) if ":" in piece else piece


def _comment(told: object, whose: str) -> str:
    """Read a comment; newer versions of Slurm tell the user's, the administrator's and its own together."""
    return str((told.get(whose) if isinstance(told, Mapping) else told) or "")


def _admin_comment(record: Record) -> object:
    """Find where a version of Slurm tells it: under its own name, or beside the user's."""
    together = record.get("comment")
    return together if isinstance(together, Mapping) else record.get("admin_comment")


def _features(told: str | Iterable[str]) -> tuple[str, ...]:
    return tuple(filter(None, told.split(",") if isinstance(told, str) else told))


def _whole(number: float) -> int:
    return int(number) if math.isfinite(number) else 0


def _signed(number: int) -> int:
    """Read a number below 0 that 22.05 prints as if it could not be."""
    return number - (1 << 32) if number >= 1 << 31 else number


def finite(number: float) -> float:
    """Read a number without bound as none."""
    return number if math.isfinite(number) else NAN


def _time(number: float) -> float:
    """Read a time; 0 is none."""
    return number if math.isfinite(number) and number > 0 else NAN


def error_sentence(error: Any) -> str:
    """Return one of an answer's errors: what Slurm was doing, and why it failed if it says so."""
    if not isinstance(error, Mapping):
        return str(error)
    doing, why = str(error.get("description") or ""), str(error.get("error") or "")
    if doing and why and why not in doing:
        return f"{doing}: {why}"
    return doing or why or str(error)
