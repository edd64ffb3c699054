"""Two made-up sites whose jobs have users and names, to judge predictions of run times on: same seed, same trace.

Both were written, and frozen, before the estimator that they judge was tuned. They share nothing but their clock.

- `habits`: a research group. Users work on projects, in sessions: one run, a sweep over parameters (an array whose
  names hold the parameters; run times follow some of them), repeats with other seeds, or debugging (short failures,
  then the real run). A run time is the project's, times the parameter's, the session's and the run's own luck. Some
  runs crash part of the way, and some sweeps fail as a whole within minutes.
- `campaigns`: a production site. Teams run workflows of stages (preparation, sharded training, evaluation) every day
  or every few hours. The data of a workflow grows and shrinks as a random walk, and all its stages with it; failures
  come at a point that is the workflow's own. Beside them people hold notebooks, which end when they go home or at
  their limit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.jobs import Jobs

if TYPE_CHECKING:
    from collections.abc import Callable

    from rltune.cluster import Cluster

Rng = np.random.Generator
HOUR_S, DAY_S = 3_600.0, 86_400.0
LONGEST_S = 14 * DAY_S
SIZES, SIZE_SHARES = (1, 2, 4, 8, 16), (0.55, 0.15, 0.14, 0.13, 0.03)
WORDS = ("bert", "resnet", "gan", "vit", "unet", "llm", "speech", "protein", "traffic", "ranker", "depth", "graph")
ACTIONS = ("train", "finetune", "pretrain", "eval", "ablate", "distil")
EPOCHS, RATES = (5, 10, 20, 40), ("1e-4", "3e-4", "1e-3")
LIMITS_S = np.array([0.25, 0.5, 1, 2, 4, 8, 12, 24, 48, 96, 168, 336]) * HOUR_S
DAYTIME = np.array([2, 1, 1, 1, 1, 1, 2, 3, 6, 10, 12, 12, 9, 11, 13, 13, 12, 10, 8, 6, 5, 5, 4, 3], dtype=np.float64)


@dataclass
class _Rows:
    """The jobs made so far, column by column."""

    cluster: Cluster | None
    submit: list[float] = field(default_factory=list)
    run: list[float] = field(default_factory=list)
    gpus: list[int] = field(default_factory=list)
    limit: list[float] = field(default_factory=list)
    user: list[str] = field(default_factory=list)
    account: list[str] = field(default_factory=list)
    qos: list[str] = field(default_factory=list)
    name: list[str] = field(default_factory=list)
    vc: list[str | None] = field(default_factory=list)
    state: list[str] = field(default_factory=list)
    array: list[int] = field(default_factory=list)
    arrays: int = 0

    def __len__(self) -> int:
        return len(self.submit)

    def add(
        self, at: float, run: float, who: _Person, gpus: int, limit: float, name: str, state: str, array: int = -1
    ) -> None:
        """Add a job; at its limit it is killed."""
        late = run >= limit
        self.submit.append(np.floor(at))
        self.run.append(float(np.clip(np.rint(min(run, limit)), 1.0, LONGEST_S)))
        self.gpus.append(min(gpus, who.room))
        self.limit.append(limit)
        self.user.append(who.user)
        self.account.append(who.account)
        self.qos.append(who.qos)
        self.name.append(name)
        self.vc.append(who.vc)
        self.state.append("timeout" if late else state)
        self.array.append(array)

    def new_array(self) -> int:
        """Return the number of a new array."""
        self.arrays += 1
        return self.arrays

    def jobs(self, count: int, load: float | None, days: float | None) -> Jobs:
        """Return the first so many in order of submission, stretched to the load or the days asked for."""
        order = np.argsort(np.array(self.submit), kind="stable")[:count]
        submit = np.array(self.submit)[order]
        submit -= submit[0]
        gpu_s = float(np.array(self.gpus)[order] @ np.array(self.run)[order])
        span_s = days * DAY_S if days is not None else float(submit[-1])
        if load is not None and self.cluster is not None:
            span_s = gpu_s / (self.cluster.gpu_count * load)
        submit = np.rint(submit * (span_s / max(float(submit[-1]), 1.0)))
        texts: dict[str, Any] = {
            name: [getattr(self, name)[i] for i in order] for name in ("user", "account", "qos", "name", "vc", "state")
        }
        numbers: dict[str, Any] = {name: np.array(getattr(self, name))[order] for name in ("gpus", "array")}
        return Jobs.from_arrays(
            submit_s=submit,
            duration_s=np.array(self.run)[order],
            limit_s=np.array(self.limit)[order],
            id=np.arange(len(order)),
            **numbers,
            **texts,
        )


@dataclass(frozen=True)
class _Person:
    user: str
    account: str
    qos: str
    vc: str | None
    room: int  # GPUs that a job of this VC may use


def _people(count: int, teams: int, qos: tuple[str, ...], cluster: Cluster | None, rng: Rng) -> list[_Person]:
    """Draw people: each is of a team, and of a VC by its share of the GPUs."""
    vcs: tuple[str | None, ...] = cluster.vcs if cluster is not None and cluster.vcs else (None,)
    room = np.array([_room(cluster, vc) for vc in vcs], dtype=np.float64)
    home = rng.choice(len(vcs), size=count, p=room / room.sum())
    team, level = rng.integers(teams, size=count), rng.choice(len(qos), size=count)
    return [
        _Person(f"u{i:03d}", f"team{team[i]:02d}", qos[level[i]], vcs[home[i]], int(room[home[i]]))
        for i in range(count)
    ]


def _room(cluster: Cluster | None, vc: str | None) -> int:
    if cluster is None:
        return max(SIZES)
    return max(1, sum(g.count * g.gpus for g in cluster.groups if g.accepted(vc, (), with_gpus=True)))


def _round_limit(seconds: float) -> float:
    return float(LIMITS_S[min(int(np.searchsorted(LIMITS_S, seconds)), len(LIMITS_S) - 1)])


def _daytime(day: int, rng: Rng) -> float:
    """Draw a time of a day: few come at night."""
    hour = rng.choice(24, p=DAYTIME / DAYTIME.sum())
    return day * DAY_S + hour * HOUR_S + rng.uniform(0, HOUR_S)


# habits: a research group


@dataclass(frozen=True)
class _Project:
    """What a user works on: the median run time, how much runs differ, what a run needs."""

    name: str
    log_s: float
    spread: float
    gpus: int
    crashes: float  # share of the runs
    by_epochs: bool  # whether run times follow the number of epochs
    caution: float  # limits are so many times the usual run time


def _project(habit: float, rng: Rng) -> _Project:
    stem = f"{rng.choice(ACTIONS)}_{rng.choice(WORDS)}{rng.integers(1, 4)}"
    return _Project(
        name=stem,
        log_s=float(np.log(1_500) + habit + rng.normal(0, 1.5)),
        spread=float(rng.uniform(0.08, 0.5)),
        gpus=int(rng.choice(SIZES, p=SIZE_SHARES)),
        crashes=float(rng.beta(1, 5)),
        by_epochs=bool(rng.random() < 0.5),
        caution=float(np.exp(rng.uniform(0.5, 2.5))),
    )


@dataclass
class _Habit:
    """A user of the research group, with the projects so far."""

    person: _Person
    effect: float
    projects: list[_Project]
    current: int = 0

    def turn_to(self, rng: Rng) -> _Project:
        """Go on with the last project, return to an older one, or begin another."""
        luck = rng.random()
        if luck < 0.07:
            self.projects.append(_project(self.effect, rng))
            self.current = len(self.projects) - 1
        elif luck < 0.22:
            self.current = int(rng.integers(len(self.projects)))
        return self.projects[self.current]


def habits(jobs: int, seed: int, load: float | None, cluster: Cluster | None, days: float | None) -> Jobs:
    """Make the jobs of a research group."""
    rng = np.random.default_rng([seed, 101])
    rows = _Rows(cluster)
    count = int(np.clip(jobs // 150, 8, 120))
    people = _people(count, max(2, count // 6), ("normal",), cluster, rng)
    users = [_Habit(p, e, [_project(e, rng)]) for p, e in zip(people, rng.normal(0, 0.8, count), strict=True)]
    weight = 1.0 / np.arange(1, count + 1) ** 0.8
    sessions: tuple[tuple[float, Callable[..., None]], ...] = (
        (0.5, _one_run),
        (0.7, _debugging),
        (0.85, _sweep),
        (1.0, _repeats),
    )
    day = 0
    while len(rows) < 1.1 * jobs:
        for _ in range(rng.poisson(40 if day % 7 < 5 else 14)):
            user = users[rng.choice(count, p=weight / weight.sum())]
            luck = rng.random()
            kind = next(made for upto, made in sessions if luck < upto)
            kind(rows, user.person, user.turn_to(rng), _daytime(day, rng), rng)
        day += 1
    return rows.jobs(jobs, load, days)


def _draw_run(project: _Project, session: float, epochs: int, rng: Rng) -> tuple[float, str]:
    """Draw a run time and how it ends: some crash part of the way."""
    whole = np.exp(project.log_s + session + rng.normal(0, project.spread))
    if project.by_epochs:
        whole *= epochs / 10
    if rng.random() < project.crashes:
        return whole * rng.beta(0.6, 2.5), "failed"
    return whole, "completed"


def _limit(project: _Project, epochs: int = 10) -> float:
    usual = np.exp(project.log_s) * (epochs / 10 if project.by_epochs else 1.0)
    return _round_limit(usual * project.caution)


def _one_run(rows: _Rows, who: _Person, project: _Project, at: float, rng: Rng) -> None:
    epochs = int(rng.choice(EPOCHS))
    run, state = _draw_run(project, rng.normal(0, 0.2), epochs, rng)
    rows.add(at, run, who, project.gpus, _limit(project, epochs), f"{project.name}_ep{epochs}", state)


def _debugging(rows: _Rows, who: _Person, project: _Project, at: float, rng: Rng) -> None:
    for _ in range(rng.integers(1, 6)):
        run = rng.exponential(60) + 5
        rows.add(at, run, who, project.gpus, _limit(project), f"{project.name}_debug", "failed")
        at += run + rng.exponential(300)
    _one_run(rows, who, project, at, rng)


def _sweep(rows: _Rows, who: _Person, project: _Project, at: float, rng: Rng) -> None:
    array, session, broken = rows.new_array(), rng.normal(0, 0.2), rng.random() < 0.1
    for i in range(int(rng.choice((4, 6, 9, 12, 24, 48), p=(0.3, 0.25, 0.2, 0.15, 0.07, 0.03)))):
        epochs = EPOCHS[i % len(EPOCHS)]
        run, state = (rng.uniform(20, 90), "failed") if broken else _draw_run(project, session, epochs, rng)
        name = f"{project.name}_lr{RATES[i % len(RATES)]}_ep{epochs}"
        rows.add(at, run, who, project.gpus, _limit(project, max(EPOCHS)), name, state, array)


def _repeats(rows: _Rows, who: _Person, project: _Project, at: float, rng: Rng) -> None:
    session = rng.normal(0, 0.2)
    for i in range(rng.integers(3, 11)):
        run, state = _draw_run(project, session, 10, rng)
        rows.add(at, run, who, project.gpus, _limit(project), f"{project.name}_seed{i}", state)
        at += rng.exponential(20)


# campaigns: a production site


@dataclass
class _Workflow:
    """A workflow that is run again and again on data that grows and shrinks."""

    name: str
    owner: _Person
    hours: float  # between two runs
    offset: float
    log_s: tuple[float, float, float]  # preparation, a shard, evaluation
    shards: int
    gpus: int
    fails: float
    fails_at: float  # share of the run
    size: float = 0.0  # logarithm of its data
    drift: float = 0.0


def _workflow(number: int, owner: _Person, rng: Rng) -> _Workflow:
    middle = rng.normal(np.log(2_400), 1.3)
    return _Workflow(
        name=f"{rng.choice(WORDS)}-{number}",
        owner=owner,
        hours=float(rng.choice((3, 6, 12, 24, 24, 168))),
        offset=float(rng.uniform(0, 24)),
        log_s=(middle - rng.uniform(1, 3), middle, middle - rng.uniform(0.5, 2.5)),
        shards=int(rng.choice((1, 2, 4, 8, 16), p=(0.3, 0.25, 0.25, 0.15, 0.05))),
        gpus=int(rng.choice(SIZES, p=SIZE_SHARES)),
        fails=float(rng.beta(1, 12)),
        fails_at=float(rng.uniform(0.02, 0.9)),
        drift=float(rng.uniform(0.02, 0.2)),
    )


def campaigns(jobs: int, seed: int, load: float | None, cluster: Cluster | None, days: float | None) -> Jobs:
    """Make the jobs of a production site."""
    rng = np.random.default_rng([seed, 202])
    rows = _Rows(cluster)
    count = int(np.clip(jobs // 400, 6, 60))
    people = _people(count, max(2, count // 5), ("low", "high"), cluster, rng)
    flows = [_workflow(i, people[rng.integers(count)], rng) for i in range(max(4, count))]
    hour = 0
    while len(rows) < 1.1 * jobs:
        for flow in flows:
            if (hour - int(flow.offset)) % int(flow.hours) == 0:
                _run_workflow(rows, flow, (hour + flow.offset % 1) * HOUR_S, rng)
        if hour % 24 == 0:
            for _ in range(rng.poisson(0.6 * count)):
                _notebook(rows, people[rng.integers(count)], _daytime(hour // 24, rng), rng)
            for i in range(len(flows)):
                if rng.random() < 0.01:  # a workflow is given up for another
                    flows[i] = _workflow(len(flows) + hour, people[rng.integers(count)], rng)
        hour += 1
    return rows.jobs(jobs, load, days)


def _run_workflow(rows: _Rows, flow: _Workflow, at: float, rng: Rng) -> None:
    flow.size = 0.97 * flow.size + rng.normal(0, flow.drift)
    date = int(at // DAY_S)
    ends = at + _stage(rows, flow, 0, "prep", at, f"d{date}", 1, -1, rng)
    array = rows.new_array() if flow.shards > 1 else -1
    longest = 0.0
    for shard in range(flow.shards):
        longest = max(longest, _stage(rows, flow, 1, "train", ends, f"d{date}-s{shard}", flow.gpus, array, rng))
    _stage(rows, flow, 2, "eval", ends + longest, f"d{date}", max(1, flow.gpus // 2), -1, rng)


def _stage(
    rows: _Rows, flow: _Workflow, number: int, stage: str, at: float, tag: str, gpus: int, array: int, rng: Rng
) -> float:
    """Add a job of a stage; return its run time."""
    run = float(np.exp(flow.log_s[number] + flow.size + rng.normal(0, 0.12)))
    failed = rng.random() < flow.fails
    run *= flow.fails_at if failed else 1.0
    limit = _round_limit(4 * np.exp(flow.log_s[number]))
    state = "failed" if failed else "completed"
    rows.add(at, run, flow.owner, gpus, limit, f"{flow.name}-{stage}-{tag}", state, array)
    return min(run, limit)


def _notebook(rows: _Rows, who: _Person, at: float, rng: Rng) -> None:
    """Hold a GPU until the evening, until the limit, or for a short look."""
    limit = float(rng.choice((4, 8, 12))) * HOUR_S
    evening = max(600.0, (np.floor(at / DAY_S) * DAY_S + 18 * HOUR_S + rng.normal(0, HOUR_S)) - at)
    run = float(rng.choice((rng.exponential(900) + 30, evening, 2 * limit), p=(0.35, 0.45, 0.2)))
    rows.add(at, run, who, 1, limit, f"jupyter-{who.user}", "killed")
