"""Measures this machine: planned against on-demand LRU, ZeRO-3, buckets, and all-resident, interleaved."""

import statistics
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor
from torch.optim import AdamW

from tencache.bench.gpt import GPT, GPTConfig, batches
from tencache.bench.other_processes import others_busy_s
from tencache.plan.rival_policies import POLICIES
from tencache.plan.step_plan import StepPlan
from tencache.plan.virtual_clock import step_s
from tencache.progress_bar import progress
from tencache.quantity import parse_bandwidth
from tencache.runtime.attach import Cached, wrap
from tencache.runtime.memory.copy_lanes import Copy, Lane
from tencache.runtime.memory.link import SimLink

WARM_TURNS = 2
MOST_TRIES = 4
QUIET_SHARE = 0.05
COLUMNS = (
    "link",
    "policy",
    "step s",
    "step / planned",
    "of bound",
    "compute s",
    "up / floor",
    "hit",
    "ready",
    "CPU s",
    "wait s",
    "clock s",
)
SMALL = GPTConfig(vocabulary=1024, context=64, width=128, heads=4, layers=4)


@dataclass(frozen=True)
class BenchSetting:
    """What is measured."""

    budget: str = "35%"
    tokens: int = 64
    rounds: int = 5
    small: bool = False
    autocast: bool = False

    @property
    def config(self) -> GPTConfig:
        """Return the sizes of a GPT of 46M parameters, or of a small one to try the benchmark itself."""
        return SMALL if self.small else GPTConfig()

    def make(self) -> tuple[GPT, AdamW]:
        """Return the same model and optimizer every time."""
        torch.manual_seed(0)
        model = GPT(self.config)
        return model, AdamW(model.parameters(), lr=1e-4, fused=True)

    def batches(self) -> list[Tensor]:
        """Return the tokens of every step."""
        length = min(self.tokens, self.config.context)
        count = WARM_TURNS + MOST_TRIES * self.rounds
        return batches(self.config, count, size=max(self.tokens // length, 1), length=length)


@dataclass
class TimedTraining:
    """A model being trained, with the time of each step."""

    name: str
    model: GPT
    optimizer: AdamW
    cached: Cached | None = None
    autocast: bool = False
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    chosen: list[int] = field(default_factory=list)

    def turn(self, tokens: Tensor, beside: AbstractContextManager[object] | None = None) -> None:
        """Train two steps and time the second, which starts with copies of the first still on their way, as in a loop.

        Timed alone, a step would have what it sends ahead carried while the other runners take their turns.
        """
        self._train(tokens)
        with beside or nullcontext():
            began, cpu_began = time.perf_counter(), time.thread_time()
            self._train(tokens)
            self.seconds.append(time.perf_counter() - began)
            self.cpu_seconds.append(time.thread_time() - cpu_began)
        if self.cached is not None:
            self.cached.engine.device_copies.settle()

    def _train(self, tokens: Tensor) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
            loss = self.model(tokens)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    @property
    def median_s(self) -> float:
        """Return the median step over the chosen rounds."""
        return statistics.median(self.seconds[index] for index in self.chosen)

    @property
    def median_cpu_s(self) -> float:
        """Return the median CPU time of the computing thread; a busy machine disturbs it least."""
        return statistics.median(self.cpu_seconds[index] for index in self.chosen)


@dataclass(frozen=True)
class BenchRow:
    """One policy over one link.

    `cpu_s` is the CPU time of the computing thread, `stall_s` what it waited for bytes, and `clock_s` the step on the
    virtual clock if compute took the CPU time of the unwrapped step and bookkeeping none: what a policy can reach.
    """

    link: str
    policy: str
    step_s: float
    compute_s: float
    bound_s: float
    speed_up: float
    up_bytes: int
    up_floor_bytes: int
    hit_rate: float
    ready_rate: float
    cpu_s: float
    stall_s: float
    clock_s: float


class Traffic:
    """Copies what a planned step moves, at the link's speed both ways: what compute has to share memory with."""

    def __init__(self, link: SimLink, plan: StepPlan, size_bytes: int = 4 * 2**20) -> None:
        self._link = link
        self._plan = plan
        self._memory = torch.empty(4, size_bytes, dtype=torch.uint8)
        self._last: list[Copy] = []

    def __enter__(self) -> Self:
        self._last = [
            self._feed(self._link.up, 0, self._plan.up_bytes),
            self._feed(self._link.down, 2, self._plan.trace.grad_bytes),
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for copy in self._last:
            copy.wait()

    def _feed(self, lane: Lane, row: int, total_bytes: int) -> Copy:
        target, source = self._memory[row], self._memory[row + 1]
        for _ in range(max(1, total_bytes // target.numel())):
            copy = Copy(target, lambda: source, target.numel())
            lane.put(copy)
        return copy


@dataclass
class Loaded:
    """A runner whose steps share cores and memory with the copies of a planned step."""

    runner: TimedTraining
    like: TimedTraining
    bytes_per_s: float
    chosen: list[int] = field(default_factory=list)

    def turn(self, tokens: Tensor) -> None:
        """Train while copies move as many bytes each way as another runner's plan does."""
        plan = None if self.like.cached is None else self.like.cached.plan
        link = SimLink(self.bytes_per_s)
        self.runner.turn(tokens, None if plan is None else Traffic(link, plan))
        link.close()


def interleave(bench: BenchSetting, runners: Sequence[TimedTraining | Loaded], label: str) -> None:
    """Let the runners take turns, and choose the rounds in which other processes used the least CPU.

    Rounds are repeated while the machine is busy; the choice looks only at what others used, never at the times.
    """
    disturbed: dict[int, float] = {}
    for index, tokens in enumerate(progress(bench.batches(), label)):
        began, others = time.perf_counter(), others_busy_s()
        for runner in runners:
            runner.turn(tokens)
        if index >= WARM_TURNS:
            disturbed[index] = (others_busy_s() - others) / (time.perf_counter() - began)
        if sum(share <= QUIET_SHARE for share in disturbed.values()) >= bench.rounds:
            break
    chosen = sorted(sorted(disturbed, key=disturbed.__getitem__)[: bench.rounds])
    for runner in runners:
        runner.chosen = chosen


def compare_policies(bench: BenchSetting, links: Sequence[str], policies: Sequence[str] = POLICIES) -> list[BenchRow]:
    """Measure these policies, "ahead" among them, over every link."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [row for link in links for row in _compare_over(bench, link, policies)]
    finally:
        torch.set_num_threads(threads)


def _compare_over(bench: BenchSetting, link: str, policies: Sequence[str]) -> list[BenchRow]:
    bytes_per_s = parse_bandwidth(link)
    resident = TimedTraining("resident", *bench.make(), autocast=bench.autocast)
    runners = []
    for policy in policies:
        model, optimizer = bench.make()
        cached = wrap(model, optimizer, budget=bench.budget, link=link, policy=policy)
        runners.append(TimedTraining(policy, model, optimizer, cached, bench.autocast))
    loaded = Loaded(resident, runners[0], bytes_per_s)
    interleave(bench, [loaded, *runners], link)
    resident.chosen = runners[0].chosen
    rows = [_row(link, bytes_per_s, runner, runners, resident) for runner in runners]
    for runner in runners:
        if runner.cached is not None:
            runner.cached.unwrap()
    return rows


def _row(
    link: str, bytes_per_s: float, runner: TimedTraining, runners: list[TimedTraining], resident: TimedTraining
) -> BenchRow:
    assert runner.cached is not None
    plan = runner.cached.plan
    assert plan is not None
    stats = runner.cached.stats()
    compute_s = resident.median_s
    ahead_s = next(one.median_s for one in runners if one.name == "ahead")
    return BenchRow(
        link=link,
        policy=runner.name,
        step_s=runner.median_s,
        compute_s=compute_s,
        bound_s=max(compute_s, plan.up_floor_bytes / bytes_per_s, plan.trace.grad_bytes / bytes_per_s),
        speed_up=runner.median_s / ahead_s,
        up_bytes=plan.up_bytes,
        up_floor_bytes=plan.up_floor_bytes,
        hit_rate=stats.hit_rate,
        ready_rate=stats.ready_rate,
        cpu_s=runner.median_cpu_s,
        stall_s=stats.stall_s / stats.steps,
        clock_s=step_s(_timed(plan, resident.median_cpu_s), runner.cached.engine.speeds),
    )


def _timed(plan: StepPlan, compute_s: float) -> StepPlan:
    """Return the plan with all durations stretched so that compute takes so long."""
    trace = plan.trace
    stretch = compute_s / trace.compute_s
    ops = tuple(replace(op, compute_s=op.compute_s * stretch) for op in trace.ops)
    updates = tuple(replace(update, compute_s=update.compute_s * stretch) for update in trace.updates)
    return replace(plan, trace=replace(trace, ops=ops, updates=updates))


def bench_table(rows: Sequence[BenchRow]) -> str:
    """Return the rows as a Markdown table."""
    lines = [
        "| " + " | ".join(COLUMNS) + " |",
        "| --- " * len(COLUMNS) + "|",
    ]
    return "\n".join([*lines, *(_line(row) for row in rows)])


def _line(row: BenchRow) -> str:
    moved = f"{row.up_bytes / row.up_floor_bytes:.3f}"
    times = f"{row.cpu_s:.3f} | {row.stall_s:.3f} | {row.clock_s:.3f}"
    return (
        f"| {row.link} | {row.policy} | {row.step_s:.3f} | {row.speed_up:.2f} | {row.bound_s / row.step_s:.0%} | "
        f"{row.compute_s:.3f} | {moved} | {row.hit_rate:.0%} | {row.ready_rate:.0%} | {times} |"
    )
