"""The experiment's jobs: fine-tuning and inference of named models, by several users, with limits that are too long.

Stated distributions, all drawn from one seed:
- a job fine-tunes (60 %) or infers; its model is drawn evenly, its run time is lognormal around the model's median
  (sigma 0.9), from 1 to 150 minutes
- GPUs: see `_SIZES`; GPU types: see `_TYPES`, as far as such nodes are large enough
- the limit is the run time times 1.2 to 8, lognormal around 2.5 (sigma 0.6), in steps of 5 minutes
- arrivals are Poisson, at a rate that asks for `load` times what the GPUs can give
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rltune.cluster import Cluster
from rltune.errors import InputError
from rltune.jobs import Jobs

CPUS_A_GPU = 4
SHORTEST_S, LONGEST_S = 60.0, 9000.0
LIMIT_STEP_S = 300.0
OVERESTIMATE = (2.5, 0.6, 1.2, 8.0)  # median, sigma, least, most
FINE_TUNING = 0.6


@dataclass(frozen=True)
class TunedModel:
    """What is run, and its median run time in seconds."""

    name: str
    median_s: float


@dataclass(frozen=True)
class Size:
    """GPUs a node, nodes, and how often this is asked for."""

    gpus: int
    nodes: int
    share: float


_SPREAD = 0.9  # sigma of the logarithm: most jobs are short, few are long
_TUNED = (TunedModel("resnet", 400), TunedModel("bert", 600), TunedModel("vit", 800), TunedModel("llama-lora", 1500))
_ASKED = (TunedModel("bert-serve", 120), TunedModel("whisper", 180), TunedModel("diffusion", 300))
_TUNE_SIZES = (Size(1, 1, 0.42), Size(2, 1, 0.28), Size(4, 1, 0.18), Size(1, 2, 0.04), Size(2, 2, 0.08))
_ASK_SIZES = (Size(1, 1, 0.75), Size(2, 1, 0.20), Size(4, 1, 0.05))
_TYPES = {"": 0.5, "p100": 0.25, "k80": 0.15, "m40": 0.10}  # "" = any


def make_jobs(cluster: Cluster, count: int, load: float, seed: int, users: tuple[str, ...]) -> Jobs:
    """Make the jobs of one seed; `submit_s` begins at 0."""
    if count < 1 or not 0 < load < math.inf:
        raise InputError(f"{count} jobs at load {load:g} cannot be made")
    rng = np.random.default_rng(seed)
    rows = [_row(cluster, rng) for _ in range(count)]
    duration_s = np.array([row[0] for row in rows])
    gpus = np.array([row[1].gpus * row[1].nodes for row in rows])
    span_s = float((duration_s * gpus).sum()) / cluster.gpu_count / load
    gaps = rng.exponential(size=count)
    submit_s = np.round((np.cumsum(gaps) - gaps[0]) * span_s / gaps.sum(), 1)
    return Jobs.from_arrays(
        submit_s=submit_s,
        duration_s=duration_s,
        gpus=gpus,
        nodes=[row[1].nodes for row in rows],
        gpus_per_node=[row[1].gpus for row in rows],
        cpus=gpus * float(CPUS_A_GPU),
        limit_s=_limits(duration_s, rng),
        user=[users[i] for i in rng.integers(len(users), size=count)],
        name=[row[2] for row in rows],
        gpu_types=[row[3] or None for row in rows],
    )


def _row(cluster: Cluster, rng: np.random.Generator) -> tuple[float, Size, str, str]:
    tunes = rng.random() < FINE_TUNING
    models, sizes = (_TUNED, _TUNE_SIZES) if tunes else (_ASKED, _ASK_SIZES)
    model = models[rng.integers(len(models))]
    duration_s = float(np.clip(rng.lognormal(math.log(model.median_s), _SPREAD), SHORTEST_S, LONGEST_S))
    shares = np.array([size.share if _types(cluster, size) else 0.0 for size in sizes])
    if not shares.any():
        raise InputError("no node group of this cluster can hold a job of one GPU")
    size = sizes[rng.choice(len(sizes), p=shares / shares.sum())]
    kinds = _types(cluster, size)
    odds = np.array([_TYPES.get(kind, 0.1) for kind in kinds])
    return round(duration_s), size, model.name, kinds[rng.choice(len(kinds), p=odds / odds.sum())]


def _types(cluster: Cluster, size: Size) -> list[str]:
    """List the types that a job of this size may ask for: "" if any nodes at all are large enough."""
    able = dict.fromkeys(cluster.gpu_types, 0)
    for group in cluster.groups:
        if group.gpus >= size.gpus and group.gpu_type:
            able[group.gpu_type] += group.count
    fit = [kind for kind, nodes in able.items() if nodes >= size.nodes]
    anywhere = sum(group.count for group in cluster.groups if group.gpus >= size.gpus)
    return ["", *fit] if anywhere >= size.nodes else []


def _limits(duration_s: np.ndarray[tuple[int, ...], np.dtype[np.float64]], rng: np.random.Generator) -> list[float]:
    median, sigma, least, most = OVERESTIMATE
    factor = np.clip(rng.lognormal(math.log(median), sigma, size=len(duration_s)), least, most)
    limits: list[float] = (np.ceil((duration_s * factor + LIMIT_STEP_S / 5) / LIMIT_STEP_S) * LIMIT_STEP_S).tolist()
    return limits
