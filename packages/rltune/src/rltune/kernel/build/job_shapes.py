"""From what jobs ask to what the core places: masks of eligible groups, and shapes of chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rltune.cluster import Cluster
from rltune.jobs import TYPE_SEPARATOR, Jobs
from rltune.kernel.state.arrays import I4, I8, UNLIMITED

ChunkKind = tuple[int, int]  # how many, GPUs of each
_MOST_CODES = 2**62
_FEW_CODES = 2048  # a table of so many is sooner filled than a few hundred rows are sorted


@dataclass(frozen=True)
class Masks:
    """Distinct sets of eligible groups, and the set of each job."""

    of_job: I4
    groups: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Shapes:
    """Distinct requests, and the request of each job; `chunks[i]` are kinds of chunks, largest first."""

    of_job: I4
    mask: I4
    cpu_milli: I8  # in all; -1 = by GPU share
    mem_mib: I8
    chunks: tuple[tuple[ChunkKind, ...], ...]
    needs: I8  # nodes that the request would do with
    wider: I8  # [shape, from and to]: the shapes that are the same request cut for one node more


def make_masks(jobs: Jobs, cluster: Cluster) -> Masks:
    """Find which groups each job may use."""
    has_gpus = (jobs.gpus > 0).astype(np.int64)
    columns = (jobs.vc.codes.astype(np.int64) + 1, jobs.gpu_types.codes.astype(np.int64) + 1, has_gpus)
    of_job, rows = distinct_rows(columns)
    code_of: dict[tuple[int, ...], int] = {}
    codes = []
    for vc, types, gpus in rows:
        vc_name = jobs.vc.names[vc - 1] if vc else None
        accepted = jobs.gpu_types.names[types - 1].split(TYPE_SEPARATOR) if types else ()
        fits = (group.accepted(vc_name, accepted, with_gpus=bool(gpus)) for group in cluster.groups)
        groups = tuple(i for i, fit in enumerate(fits) if fit)
        codes.append(code_of.setdefault(groups, len(code_of)))
    table = np.array(codes, dtype=np.int32)
    return Masks(table[of_job] if len(table) else of_job, tuple(code_of))


def make_shapes(jobs: Jobs, cluster: Cluster, masks: Masks, *, wider: bool = False) -> Shapes:
    """Find the distinct requests, and cut each into chunks; with `wider` also in the ways that take one node more."""
    cpu = _scaled(jobs.cpus, 1000.0)
    mem = _scaled(jobs.mem_gib, 1024.0)
    no_gpus = jobs.gpus == 0
    nodes = np.maximum(jobs.nodes, 1)
    cpu = np.where(no_gpus & (cpu < 0), 1000 * nodes, cpu)
    mem = np.where(no_gpus & (mem < 0), 0, mem)
    of_job, rows = distinct_rows((masks.of_job, jobs.gpus, jobs.nodes, jobs.gpus_per_node, cpu, mem))
    chunks = [_chunks(cluster, masks.groups[m], g, n, per) for m, g, n, per, _, _ in rows.tolist()]
    open_ended = wider & (rows[:, 2] == 0) & (rows[:, 3] == 0)
    cuts = [_cut_once_more(c) if may else () for c, may in zip(chunks, open_ended, strict=True)]
    source = np.repeat(np.arange(len(rows)), [len(c) for c in cuts])
    end = len(rows) + np.cumsum([len(c) for c in cuts], dtype=np.int64)
    ranges = np.stack([end - [len(c) for c in cuts], end], axis=1).astype(np.int64)
    all_rows = np.concatenate([rows, rows[source]])
    needs = np.array([sum(n for n, _ in c) for c in chunks], dtype=np.int64)
    return Shapes(
        of_job=of_job,
        mask=all_rows[:, 0].astype(np.int32),
        cpu_milli=all_rows[:, 4],
        mem_mib=all_rows[:, 5],
        chunks=(*chunks, *(cut for c in cuts for cut in c)),
        needs=np.concatenate([needs, needs[source]]),
        wider=np.concatenate([ranges, np.zeros((len(source), 2), dtype=np.int64)]),
    )


def _cut_once_more(kinds: tuple[ChunkKind, ...]) -> tuple[tuple[ChunkKind, ...], ...]:
    """Cut one of the smallest chunks in two, in every way; the user has not said how many nodes are wanted."""
    (n, gpus), rest = kinds[-1], kinds[:-1]
    cuts = []
    for part in range((gpus + 1) // 2, gpus):
        pieces = ((2, part),) if 2 * part == gpus else ((1, part), (1, gpus - part))
        cuts.append(_kinds((*rest, (n - 1, gpus), *pieces)))
    return tuple(cuts)


def _scaled(values: np.ndarray, factor: float) -> I8:
    asked = np.where(np.isnan(values), 0.0, values) * factor
    return np.where(np.isnan(values), -1, np.rint(np.minimum(asked, UNLIMITED))).astype(np.int64)


def _chunks(cluster: Cluster, groups: tuple[int, ...], gpus: int, nodes: int, per_node: int) -> tuple[ChunkKind, ...]:
    if nodes > 0:
        each, more = divmod(gpus, nodes)
        return _kinds(((more, each + 1), (nodes - more, each)))
    if gpus == 0:
        return ((1, 0),)
    if per_node > 0:
        return _kinds(((gpus // per_node, per_node), (1 if gpus % per_node else 0, gpus % per_node)))
    sizes: dict[int, int] = {}
    for g in groups:
        sizes[cluster.groups[g].gpus] = sizes.get(cluster.groups[g].gpus, 0) + cluster.groups[g].count
    return _whole_nodes(gpus, sizes)


def _whole_nodes(gpus: int, sizes: dict[int, int]) -> tuple[ChunkKind, ...]:
    """Cut a job into one chunk if the largest node holds it, else into whole nodes, largest first, and a rest."""
    if not sizes or gpus <= max(sizes):
        return ((1, gpus),)
    kinds: list[ChunkKind] = []
    for size in sorted(sizes, reverse=True):
        count = min(sizes[size], gpus // size)
        kinds.append((count, size))
        gpus -= count * size
    return _kinds((*kinds, (1 if gpus else 0, gpus)))


def _kinds(kinds: Sequence[ChunkKind]) -> tuple[ChunkKind, ...]:
    return tuple(sorted(((n, g) for n, g in kinds if n > 0), key=lambda kind: -kind[1]))


def distinct_rows(columns: Sequence[np.ndarray]) -> tuple[I4, I8]:
    """Assign numbers to the distinct rows of integer columns; return each row's number and the distinct rows."""
    table = np.empty((len(columns), len(columns[0])), dtype=np.int64)
    for i, column in enumerate(columns):
        table[i] = column
    if not table.shape[1]:
        return np.zeros(0, dtype=np.int32), np.ascontiguousarray(table.T)
    code, room = _row_codes(table)
    if room <= _FEW_CODES or room <= 4 * len(code):
        of_row, first = _number_by_table(code, room)
    else:
        _, first, of_row = np.unique(code, return_index=True, return_inverse=True)
    return of_row.astype(np.int32), np.ascontiguousarray(table[:, first].T)


def _row_codes(table: I8) -> tuple[I8, int]:
    """Return one number for each row of columns, in the order of the rows, and a bound that all are below."""
    code = np.zeros(table.shape[1], dtype=np.int64)
    room = 1
    for column, low, high in zip(table, table.min(axis=1).tolist(), table.max(axis=1).tolist(), strict=True):
        if low == high:
            continue
        place, width = column - low, high - low + 1
        if room * width >= _MOST_CODES:
            values, place = np.unique(column, return_inverse=True)
            distinct, code = np.unique(code, return_inverse=True)
            room, width = len(distinct), len(values)
        code = code * width + place
        room *= width
    return code, room


def _number_by_table(code: I8, room: int) -> tuple[I8, I8]:
    """Assign numbers to the distinct codes without sorting; return each one's number and each number's first row."""
    first = np.full(room, -1, dtype=np.int64)
    first[code[::-1]] = np.arange(len(code) - 1, -1, -1)  # of equal codes the last that is written stays
    used = np.flatnonzero(first >= 0)
    number = np.empty(room, dtype=np.int64)
    number[used] = np.arange(len(used))
    return number[code], first[used]
