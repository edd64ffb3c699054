"""Nodes from what Slurm printed into a file: `scontrol show nodes`, `sinfo -N -o ...`, or either of them as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from rltune.errors import InputError
from rltune.hostlist import expand
from rltune.live.see.backend import BackendError
from rltune.live.see.snapshot import LiveNode, Snapshot
from rltune.live.slurm import json_records as parse
from rltune.live.slurm import scontrol_show as show
from rltune.live.slurm.dialect import release_of
from rltune.live.slurm.gres import parse_gpus

ASK = "scontrol show nodes > nodes.txt, or sinfo -N -o '%N %P %G %c %m %f %T' > nodes.txt"
_AWAY = ("DOWN", "DRAIN", "FAIL", "MAINT", "POWER", "UNK", "INVAL")  # how sinfo's words begin for nodes out of work
_NEEDED = ("NODELIST", "PARTITION", "GRES", "CPUS", "MEMORY")


def printed_snapshot(text: str, path: str) -> Snapshot:
    """Read the nodes out of a file, with the partitions that it tells of."""
    try:
        nodes, version = _nodes(text)
        told = show.partitions(text)
    except BackendError as error:
        raise InputError(f"{path}: {error}") from None
    except (KeyError, ValueError) as error:
        raise InputError(f"{path}: holds what cannot be read ({error}); ask by: {ASK}") from None
    if not nodes:
        raise InputError(f"{path}: tells of no node; ask by: {ASK}")
    return Snapshot(taken_s=0.0, version=version, jobs=(), nodes=nodes, partitions=told)


def _nodes(text: str) -> tuple[tuple[LiveNode, ...], str]:
    """Return the nodes, and the version of Slurm if it is told."""
    if text.lstrip().startswith("{"):
        answer = parse.answer_of(text, "the file", "nodes")
        return tuple(parse.nodes_of(answer)), release_of(answer)
    records = list(show.records(_one_line_each(text), "NodeName"))
    if records:
        return tuple(map(_of_scontrol, records)), records[0].get("Version", "")
    return tuple(_joined(_of_sinfo(row) for row in _sinfo_rows(text))), ""


def _one_line_each(text: str) -> str:
    """Put the indented lines of a record behind its first, as --oneliner does."""
    return text.replace("\r", "").replace("\n ", " ")


def _of_scontrol(record: Mapping[str, str]) -> LiveNode:
    gpus = parse_gpus(record.get("Gres", ""))
    words = tuple(record.get("State", "").split("+"))
    return LiveNode(
        name=record["NodeName"],
        gpu_type="+".join(gpus.types),
        gpus=gpus.count,
        cpus=float(record.get("CPUEfctv") or record["CPUTot"]),
        mem_gib=float(record["RealMemory"]) / parse.MIB_A_GIB,
        state=record.get("State", ""),
        up=parse.takes_jobs(words),
        partitions=tuple(filter(None, record.get("Partitions", "").split(","))),
        features=tuple(filter(None, record.get("ActiveFeatures", "").split(","))),
        shares_gpus=gpus.shared,
    )


def _sinfo_rows(text: str) -> Iterator[dict[str, str]]:
    """Return the rows of a table as sinfo prints it, by the names in its header line."""
    lines = [line for line in text.splitlines() if line.strip()]
    at = next((i for i, line in enumerate(lines) if "NODELIST" in line), None)
    if at is None:
        raise ValueError("neither NodeName= nor NODELIST stands in it")
    mark = "|" if "|" in lines[at] else None
    header = [name.strip() for name in lines[at].split(mark)]
    missing = [name for name in _NEEDED if name not in header]
    if missing:
        raise ValueError(f"column {missing[0]} is missing")
    for line in lines[at + 1 :]:
        cells = [cell.strip() for cell in line.split(mark)]
        if len(cells) != len(header):
            raise ValueError(f"{line.strip()!r:.80} has {len(cells)} fields, the header has {len(header)}")
        row = dict(zip(header, cells, strict=True))
        yield from ({**row, "NODELIST": node} for node in expand(row["NODELIST"]))


def _of_sinfo(row: Mapping[str, str]) -> LiveNode:
    for name in ("CPUS", "MEMORY"):
        if row[name].endswith("+"):
            raise ValueError(f"{name} of {row['NODELIST']} is {row[name]}, of nodes that differ: give -N")
    gpus = parse_gpus("" if row["GRES"] == "(null)" else row["GRES"])
    features = row.get("AVAIL_FEATURES", "(null)").replace("(null)", "")
    state = row.get("STATE", "").upper()
    return LiveNode(
        name=row["NODELIST"],
        gpu_type="+".join(gpus.types),
        gpus=gpus.count,
        cpus=float(row["CPUS"]),
        mem_gib=float(row["MEMORY"]) / parse.MIB_A_GIB,
        state=state,
        up=not state.startswith(_AWAY) and not state.endswith("*"),  # starred: it does not respond
        partitions=(row["PARTITION"].rstrip("*"),),  # the default one is starred
        features=tuple(filter(None, features.split(","))),
        shares_gpus=gpus.shared,
    )


def _joined(rows: Iterator[LiveNode]) -> Iterator[LiveNode]:
    """Make one of the rows of a node, of which sinfo prints one for each partition."""
    nodes: dict[str, LiveNode] = {}
    for row in rows:
        before = nodes.setdefault(row.name, replace(row, partitions=()))
        nodes[row.name] = replace(before, partitions=(*before.partitions, *row.partitions))
    yield from nodes.values()
