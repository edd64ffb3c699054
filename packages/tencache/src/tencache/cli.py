"""The command: `tencache plan`, `replay`, `bench`, `demo`, `reproduce` and `doctor`."""

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from tencache.claims_command import add_reproduce
from tencache.errors import RefusedError
from tencache.plan.activation_plan import peak_saved_bytes
from tencache.plan.kept_state import keep_offer
from tencache.plan.policy_costs import cost_of
from tencache.plan.rival_policies import POLICIES
from tencache.plan.step_plan import StepPlan
from tencache.plan.step_trace import StepTrace
from tencache.plan.timeline_page import draw
from tencache.plan.transformer_shapes import PRESETS, Setting, find_shape, make_trace
from tencache.plan.virtual_clock import UPDATE_TIMES, Bandwidths, best_plan, replay_plan
from tencache.progress_bar import progress
from tencache.quantity import parse_bandwidth, parse_bytes, show_bytes

DOES_NOT_FIT = 1
UNHEALTHY = 1
MISUSE = 2
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; a user's mistake is one sentence, not a traceback."""
    options = _parser().parse_args(arguments)
    try:
        _check_numbers(options)
        code: int = options.run(options)
    except KeyboardInterrupt:
        return INTERRUPTED
    except RefusedError as error:
        sys.stderr.write(f"tencache: {error}\n")
        return DOES_NOT_FIT
    except (ValueError, OSError) as error:
        sys.stderr.write(f"tencache: {error}\n")
        return MISUSE
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tencache", description="Train models larger than the device, planned ahead.")
    commands = parser.add_subparsers(required=True, metavar="command")
    plan = commands.add_parser("plan", help="does this model fit this budget, and how fast would it train")
    _add_model(plan)
    plan.add_argument("--html", type=Path, help="draw the step's timeline into this file")
    plan.add_argument("--force", action="store_true", help="let --html replace a file that is there")
    plan.add_argument("--table", type=int, default=0, metavar="ROWS", help="print the first rows of the table")
    plan.set_defaults(run=_plan)
    again = commands.add_parser("replay", help="run policies against a bandwidth model on a virtual clock")
    _add_model(again)
    again.add_argument("--policy", choices=[*POLICIES, "all"], default="all", help="which policy (default: all)")
    again.set_defaults(run=_replay)
    bench = commands.add_parser("bench", help="measure this machine: planned against other policies and all-resident")
    bench.add_argument("--links", nargs="+", default=["1GB/s", "2GB/s"], help="simulated bandwidths")
    bench.add_argument("--budget", default="35%", help="the device's memory (default: 35%% of the parameters)")
    bench.add_argument("--tokens", type=int, default=64, help="tokens in a step (default: 64)")
    bench.add_argument("--rounds", type=int, default=5, help="interleaved rounds; medians are shown (default: 5)")
    bench.add_argument("--small", action="store_true", help="a model of 1M parameters instead of 46M, to try it out")
    bench.set_defaults(run=_bench)
    demo = commands.add_parser("demo", help="train a small GPT larger than its simulated device")
    demo.add_argument("--out", type=Path, default=Path("out"), help="folder for the timeline (default: out)")
    demo.set_defaults(run=_demo)
    add_reproduce(commands)
    doctor = commands.add_parser("doctor", help="examine this machine before a first run, and print a report to send")
    doctor.add_argument("--device", help="sim, cuda or cuda:1 (default: cuda if there is one)")
    doctor.add_argument("--nvme", type=Path, help="a folder to try the file tier in")
    doctor.add_argument("--small", action="store_true", help="time a model of 1M parameters instead of 46M")
    doctor.add_argument("--json", action="store_true", help="print the report as JSON")
    doctor.set_defaults(run=_doctor)
    return parser


def _check_numbers(options: argparse.Namespace) -> None:
    for name in ("tokens", "context", "tflops", "rounds"):
        value = getattr(options, name, 1)
        if not 0 < value < math.inf:
            raise ValueError(f"--{name} {value}: a number above zero is needed")
    if getattr(options, "table", 0) < 0:
        raise ValueError(f"--table {options.table}: a number of rows is not negative")


def _add_model(parser: argparse.ArgumentParser) -> None:
    default = Setting()
    parser.add_argument("model", help=f"one of {', '.join(PRESETS)}, a config.json, or a trace that was saved")
    parser.add_argument("--budget", required=True, help="the device's memory for parameters: 8GiB, or 35%%")
    parser.add_argument("--link", default="25GB/s", help="bandwidth each way (default: 25GB/s, PCIe 4)")
    parser.add_argument("--nvme", default="6GB/s", help="bandwidth of the file tier (default: 6GB/s)")
    parser.add_argument("--tokens", type=int, default=default.tokens, help=f"tokens in a step ({default.tokens})")
    parser.add_argument("--context", type=int, default=default.context, help=f"sequence length ({default.context})")
    parser.add_argument("--tflops", type=float, default=default.flops_per_s / 1e12, help="what the device computes")
    parser.add_argument("--host-bandwidth", default="100GB/s", help="memory bandwidth of the host's optimizer")
    parser.add_argument("--no-recompute", action="store_true", help="keep activations instead of recomputing blocks")
    times = "after everything else, late, or within backward too where that pays, as wrap() does"
    parser.add_argument("--updates", choices=UPDATE_TIMES, default="late", help=f"when updates are computed: {times}")
    saved = "the device's memory for what backward needs; the rest waits on the host (default: all stays on the device)"
    parser.add_argument("--activations", metavar="BYTES", help=saved)
    parser.add_argument("--state-in-file", type=float, default=0.0, help="share of the optimizer state in the file")


def _load(options: argparse.Namespace) -> tuple[StepTrace, int, Bandwidths]:
    trace = _trace(options)
    speed, file_speed = parse_bandwidth(options.link), parse_bandwidth(options.nvme)
    budget_bytes = parse_bytes(options.budget, whole=trace.parameter_bytes)
    room = None if options.activations is None else parse_bytes(options.activations)
    speeds = Bandwidths(speed, speed, file_speed, file_speed, updates=options.updates, activation_bytes=room)
    return trace, budget_bytes, speeds


def _trace(options: argparse.Namespace) -> StepTrace:
    path = Path(options.model)
    if path.is_file() and b"tencache_trace" in path.read_bytes()[:40]:
        return StepTrace.load(path)
    if not 0 <= options.state_in_file <= 1:
        raise ValueError(f"--state-in-file {options.state_in_file}: a share is between 0 and 1")
    setting = Setting(
        tokens=options.tokens,
        context=options.context,
        flops_per_s=options.tflops * 1e12,
        host_bytes_per_s=parse_bandwidth(options.host_bandwidth),
        recompute=not options.no_recompute,
        state_in_file=options.state_in_file,
    )
    return make_trace(find_shape(options.model), setting)


def _plan(options: argparse.Namespace) -> int:
    if options.html is not None and options.html.exists() and not options.force:
        raise ValueError(f"--html {options.html}: there is such a file; give another name, or --force to replace it")
    trace, budget_bytes, speeds = _load(options)
    plan = best_plan(trace, budget_bytes, speeds, keep_offer(trace, budget_bytes))
    result = replay_plan(plan, speeds)
    state_in_file = sum(update.file_bytes for update in trace.updates)
    bound = f"bound {result.bound_s:.4g} s ({result.of_bound:.0%} of it)"
    floor = f"floor {show_bytes(result.up_floor_bytes)}"
    held = f"{show_bytes(trace.parameter_bytes + trace.grad_bytes)} of parameters and gradients"
    lines = (
        f"{options.model}: {show_bytes(trace.parameter_bytes)} of parameters fit in {show_bytes(budget_bytes)}",
        f"step     {result.step_s:.4g} s; all-resident {result.compute_s:.4g} s; {bound}",
        f"touches  hit {result.hit_rate:.1%}, ready {result.ready_rate:.1%}, stalls {result.stall_s:.4g} s",
        f"device   {show_bytes(result.peak_bytes)} used{_kept(plan)}; up {show_bytes(result.up_bytes)} a step, {floor}",
        f"host     {held}; down {show_bytes(result.down_bytes)} a step",
        f"file     {show_bytes(state_in_file)} of optimizer state; {show_bytes(result.file_bytes)} a step",
    )
    _say("\n".join(lines))
    if trace.saves:
        saved = f"{show_bytes(peak_saved_bytes(trace.saves))} at most for backward"
        again = sum(trace.saves[number].bytes for number in plan.again)
        computed = f", {show_bytes(again)} computed again" if again else ""
        _say(f"saved    {saved}; {show_bytes(result.offloaded_bytes)} a step to the host and back{computed}")
    if options.table:
        _say(plan.table(options.table))
    if options.html is not None:
        held = f"{options.budget} of its parameters" if options.budget.endswith("%") else options.budget
        title = f"One step of {options.model} with {held} on the device, over {options.link}"
        _draw(options.html, draw(result, title, trace.parameter_bytes))
    return 0


def _kept(plan: StepPlan) -> str:
    """Return how much of it stays there with its optimizer state."""
    return f", {show_bytes(plan.kept_bytes)} of it for good, with optimizer state" if plan.kept else ""


def _draw(path: Path, page: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    _say(f"timeline {path}")


def _replay(options: argparse.Namespace) -> int:
    trace, budget_bytes, speeds = _load(options)
    chosen = POLICIES if options.policy == "all" else (options.policy,)
    _say(f"{'policy':<8} {'step s':>9} {'of bound':>9} {'stall s':>9} {'hit':>6} {'ready':>6} {'up':>11} {'floor':>11}")
    for policy in progress(chosen, "replaying"):
        result = cost_of(policy, trace, budget_bytes, speeds)
        _say(
            f"{policy:<8} {result.step_s:>9.4g} {result.of_bound:>9.0%} {result.stall_s:>9.4g} {result.hit_rate:>6.0%} "
            f"{result.ready_rate:>6.0%} {show_bytes(result.up_bytes):>11} {show_bytes(result.up_floor_bytes):>11}"
        )
    return 0


def _bench(options: argparse.Namespace) -> int:
    from tencache.bench.policy_bench import BenchSetting, bench_table, compare_policies

    bench = BenchSetting(options.budget, options.tokens, options.rounds, small=options.small)
    _say(bench_table(compare_policies(bench, options.links)))
    return 0


def _demo(options: argparse.Namespace) -> int:
    from tencache.bench.demo import demonstrate

    _say(demonstrate(options.out))
    return 0


def _doctor(options: argparse.Namespace) -> int:
    from tencache.bench.doctor import examine

    report = examine(options.device, nvme=options.nvme, small=options.small)
    _say(json.dumps(report.as_dict(), indent=2) if options.json else str(report))
    return 0 if report.healthy else UNHEALTHY


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
