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
from tencache.plan.policy_costs import plan_of
from tencache.plan.rival_policies import POLICIES
from tencache.plan.step_plan import StepPlan
from tencache.plan.virtual_clock import step_s
from tencache.progress_bar import progress
from tencache.quantity import parse_bandwidth
from tencache.runtime.attach import Cached
from tencache.runtime.memory.copy_lanes import Copy, Lane
from tencache.runtime.memory.link import SimLink
from tencache.runtime.wrapping import wrap

WARM_TURNS = 2
STEPS_IN_A_ROW = 3
MOST_TRIES = 4
QUIET_SHARE = 0.05
COLUMNS = (
    "link",
    "policy",
    "step s",
    "step / planned",
    "of bound",
    "device s",
    "update s",
    "up / floor",
    "hit",
    "ready",
    "CPU s",
    "wait s",
    "clock s",
)
# Who takes turns: a policy, and whether its optimizer's updates come late, as planned steps have them, or at once.
CONTENDERS = {"ahead": ("ahead", True), "zero3, late step": ("zero3", True)} | {
    policy: (policy, False) for policy in POLICIES if policy != "ahead"
}
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
    device_seconds: list[float] = field(default_factory=list)
    chosen: list[int] = field(default_factory=list)

    def turn(self, tokens: Tensor, beside: AbstractContextManager[object] | None = None) -> None:
        """Train a few steps in a row, and note what one of them takes on average.

        Nothing is on its way when they begin, nor when they are over, so all that they move is moved in their time. A
        single step could leave its copies to whoever comes after it, and look faster than the link allows.
        """
        with beside or nullcontext():
            began, cpu_began = time.perf_counter(), time.thread_time()
            device_s = sum(self._train(tokens) for _ in range(STEPS_IN_A_ROW))
            cpu_s = time.thread_time() - cpu_began
            if self.cached is not None:
                self.cached.masters.pending.wait_all()
                self.cached.link.drain()
            self.seconds.append((time.perf_counter() - began) / STEPS_IN_A_ROW)
        self.device_seconds.append(device_s / STEPS_IN_A_ROW)
        self.cpu_seconds.append(cpu_s / STEPS_IN_A_ROW)

    def _train(self, tokens: Tensor) -> float:
        """Train a step, and return the CPU time of forward and backward."""
        began = time.thread_time()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
            loss = self.model(tokens)
        loss.backward()
        device_s = time.thread_time() - began
        self.optimizer.step()
        self.optimizer.zero_grad()
        return device_s

    @property
    def median_s(self) -> float:
        """Return the median step over the chosen rounds."""
        return statistics.median(self.seconds[index] for index in self.chosen)

    @property
    def median_cpu_s(self) -> float:
        """Return the median CPU time of the computing thread; a busy machine disturbs it least."""
        return statistics.median(self.cpu_seconds[index] for index in self.chosen)

    @property
    def median_device_s(self) -> float:
        """Return the median CPU time of forward and backward."""
        return statistics.median(self.device_seconds[index] for index in self.chosen)

    @property
    def median_update_s(self) -> float:
        """Return the median CPU time of the optimizer."""
        return self.median_cpu_s - self.median_device_s


@dataclass(frozen=True)
class RoundSpread:
    """A ratio taken round by round: its median, and its lowest and highest."""

    middle: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Return the spread of some values."""
        return cls(statistics.median(values), min(values), max(values))

    def __str__(self) -> str:
        return f"{self.middle:.2f} ({self.low:.2f}-{self.high:.2f})"


@dataclass(frozen=True)
class BenchRow:
    """One policy over one link.

    `device_s` and `update_s` are the CPU times of the unwrapped forward and backward, and of its optimizer, in the same
    rounds. The bound is taken round by round: a crowded round is crowded for both. Nothing exceeds it: compute is the
    less of what the unwrapped step and this one used in that round, and all bytes of a step move within its time.
    `cpu_s` is the CPU time of the computing thread, `stall_s` what it waited for bytes, and `clock_s` the step on the
    virtual clock if compute took the unwrapped step's times and bookkeeping none: what a policy can reach.
    """

    link: str
    policy: str
    step_s: float
    device_s: float
    update_s: float
    of_bound: RoundSpread
    speed_up: RoundSpread
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


def compare_policies(
    bench: BenchSetting, links: Sequence[str], names: Sequence[str] = tuple(CONTENDERS)
) -> list[BenchRow]:
    """Measure these contenders, "ahead" first, over every link."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [row for link in links for row in _compare_over(bench, link, names)]
    finally:
        torch.set_num_threads(threads)


def _compare_over(bench: BenchSetting, link: str, names: Sequence[str]) -> list[BenchRow]:
    bytes_per_s = parse_bandwidth(link)
    resident = TimedTraining("resident", *bench.make(), autocast=bench.autocast)
    runners = []
    for name in names:
        policy, overlap = CONTENDERS[name]
        model, optimizer = bench.make()
        cached = wrap(model, optimizer, budget=bench.budget, link=link, policy=policy, overlap=overlap)
        runners.append(TimedTraining(name, model, optimizer, cached, bench.autocast))
    interleave(bench, [resident, *runners], link)
    rows = [_row(link, bytes_per_s, runner, runners[0], resident) for runner in runners]
    for runner in runners:
        if runner.cached is not None:
            runner.cached.unwrap()
    return rows


def _row(
    link: str, bytes_per_s: float, runner: TimedTraining, planned: TimedTraining, resident: TimedTraining
) -> BenchRow:
    assert runner.cached is not None
    plan = runner.cached.plan
    assert plan is not None
    stats = runner.cached.stats()
    moved_s = max(plan.up_floor_bytes, plan.trace.grad_bytes) / bytes_per_s
    return BenchRow(
        link=link,
        policy=runner.name,
        step_s=runner.median_s,
        device_s=resident.median_device_s,
        update_s=resident.median_update_s,
        of_bound=RoundSpread.of(shares_of_bound(runner, resident, moved_s)),
        speed_up=RoundSpread.of([runner.seconds[index] / planned.seconds[index] for index in runner.chosen]),
        up_bytes=plan.up_bytes,
        up_floor_bytes=plan.up_floor_bytes,
        hit_rate=stats.hit_rate,
        ready_rate=stats.ready_rate,
        cpu_s=runner.median_cpu_s,
        stall_s=stats.stall_s / stats.steps,
        clock_s=_on_the_clock(runner, planned, resident),
    )


def _on_the_clock(runner: TimedTraining, planned: TimedTraining, resident: TimedTraining) -> float:
    """Return the seconds of a policy's step on the virtual clock, with the same durations for every policy."""
    assert runner.cached is not None
    assert planned.cached is not None
    assert planned.cached.plan is not None
    assert runner.cached.plan is not None
    # Where the planned step moves halves, the others have traces of other bytes.
    halved = planned.cached.engine.working.halved(planned.cached.plan.trace)
    trace = _timed(runner.cached.plan if halved else planned.cached.plan, resident).trace
    plans = runner.cached.engine.plans
    return step_s(plan_of(plans.policy, trace, runner.cached.budget_bytes, plans.speeds), plans.speeds)


def shares_of_bound(runner: TimedTraining, resident: TimedTraining, moved_s: float) -> list[float]:
    """Return the bound of each chosen round as a share of its step: what moving takes, or computing if that is more."""
    pairs = zip(runner.device_seconds, resident.device_seconds, strict=True)
    computed_s = [min(pair) for pair in pairs]
    return [max(computed_s[index], moved_s) / runner.seconds[index] for index in runner.chosen]


def _timed(plan: StepPlan, resident: TimedTraining) -> StepPlan:
    """Return the plan with durations stretched so that operations and updates take as long as unwrapped."""
    trace = plan.trace
    of_ops, of_updates = resident.median_device_s / trace.device_s, resident.median_update_s / (trace.update_s or 1.0)
    ops = tuple(replace(op, compute_s=op.compute_s * of_ops) for op in trace.ops)
    updates = tuple(replace(update, compute_s=update.compute_s * of_updates) for update in trace.updates)
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
        f"| {row.link} | {row.policy} | {row.step_s:.3f} | {row.speed_up} | {row.of_bound} | {row.device_s:.3f} | "
        f"{row.update_s:.3f} | {moved} | {row.hit_rate:.0%} | {row.ready_rate:.0%} | {times} |"
    )
