"""Examines a machine before a first run on it; the report says what works, how fast, and what was not checked."""

import os
import platform
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import torch
from torch.optim import AdamW

from tencache.bench.gpt import GPT, GPTConfig, batches
from tencache.bench.identity_suite import BUDGET, WAYS, TrainingWay, runs_alike
from tencache.plan.virtual_clock import replay_plan
from tencache.progress_bar import progress
from tencache.quantity import show_bytes
from tencache.runtime.memory.accelerator import Accelerator, find_accelerator, find_device
from tencache.runtime.memory.device_arena import Arena
from tencache.runtime.memory.host_pool import HostPool
from tencache.runtime.memory.link import Link, SimLink, StreamLink
from tencache.runtime.memory.nvme_file import FileTier
from tencache.runtime.wrapping import wrap

Verdict = Literal["ok", "bad", "not checked"]
PROBE_BYTES = 64 * 2**20
ROUNDS = 5
WARM_STEPS = 3
SMALL = GPTConfig(vocabulary=1024, context=64, width=128, heads=4, layers=4)
NO_DEVICE = "torch finds no CUDA device here, so this is the simulated one"


@dataclass(frozen=True)
class DoctorFinding:
    """What one check found, in a sentence, and its numbers."""

    check: str
    verdict: Verdict
    text: str
    numbers: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class HealthReport:
    """All findings; `str()` is the report to read, `as_dict()` the one for a program."""

    device: str
    findings: tuple[DoctorFinding, ...]

    @property
    def healthy(self) -> bool:
        """Return whether nothing that was checked is bad."""
        return all(finding.verdict != "bad" for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """Return everything that was found."""
        return {"tencache_doctor": 1, **asdict(self), "healthy": self.healthy}

    def __str__(self) -> str:
        lines = [f"{one.verdict:<12} {one.check:<10} {one.text}" for one in self.findings]
        unchecked = sum(finding.verdict == "not checked" for finding in self.findings)
        bad = sum(finding.verdict == "bad" for finding in self.findings)
        end = f"{len(lines)} checks on {self.device}: {bad} bad, {unchecked} not checked"
        return "\n".join([*lines, end])


@dataclass(frozen=True)
class Patient:
    """What is examined."""

    device: torch.device
    accelerator: Accelerator | None
    nvme: Path | None
    small: bool

    @property
    def name(self) -> str:
        """Return the device as `wrap()` takes it."""
        return "sim" if self.accelerator is None else str(self.device)

    def wrap(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        budget: str = BUDGET,
        activations: int | None = None,
    ) -> Any:
        """Wrap a model for the device."""
        link = "1GB/s" if self.accelerator is None else None
        return wrap(model, optimizer, budget=budget, device=self.name, link=link, activations=activations)


def examine(device: str | None = None, *, nvme: Path | None = None, small: bool = False) -> HealthReport:
    """Run every check; one that fails is a finding, and the next one runs."""
    # cuBLAS asks for this before its first use; without it the same run may have other bits every time.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    found = find_device(device or ("cuda" if torch.cuda.is_available() else "sim"))
    patient = Patient(found, find_accelerator(found), nvme, small)
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    # On the CPU, sums depend on the number of threads.
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        findings = [
            finding for check in progress(list(CHECKS.items()), "examining") for finding in _try(check, patient)
        ]
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic)
    return HealthReport(patient.name, tuple(findings))


def _try(check: tuple[str, Callable[[Patient], list[DoctorFinding]]], patient: Patient) -> list[DoctorFinding]:
    name, run = check
    try:
        return run(patient)
    except Exception as error:  # noqa: BLE001  whatever fails, the report goes on and says so
        first_line = (str(error).splitlines() or [""])[0]
        return [DoctorFinding(name, "bad", f"{type(error).__name__}: {first_line}")]


def _machine(_: Patient) -> list[DoctorFinding]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    text = (
        f"tencache {version('tencache')}, torch {torch.__version__}, Python {platform.python_version()}, "
        f"{platform.system()} {platform.release()}, {os.cpu_count()} cores, {show_bytes(memory)} of memory"
    )
    return [DoctorFinding("machine", "ok", text, {"cores": os.cpu_count() or 0, "memory_bytes": memory})]


def _device(patient: Patient) -> list[DoctorFinding]:
    if patient.accelerator is None:
        return [
            DoctorFinding("device", "not checked", NO_DEVICE),
            DoctorFinding("driver", "not checked", "there is no device"),
        ]
    if patient.device.type != "cuda":
        return [
            DoctorFinding("device", "ok", f"{patient.device}"),
            DoctorFinding("driver", "not checked", "it is not CUDA"),
        ]
    about: Any = torch.cuda.get_device_properties(patient.device)
    free_bytes, total_bytes = torch.cuda.mem_get_info(patient.device)
    text = (
        f"{about.name}, compute capability {about.major}.{about.minor}, {show_bytes(free_bytes)} free of "
        f"{show_bytes(total_bytes)}"
    )
    file = Path("/proc/driver/nvidia/version")
    driver = file.read_text(encoding="utf-8").splitlines()[0] if file.is_file() else "version not told by the system"
    return [
        DoctorFinding("device", "ok", text, {"free_bytes": free_bytes, "total_bytes": total_bytes}),
        DoctorFinding("driver", "ok", f"{driver}; torch is built for CUDA {torch.version.cuda}"),
    ]


def _pinned(patient: Patient) -> list[DoctorFinding]:
    pages = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    huge = pages.read_text(encoding="utf-8").strip() if pages.is_file() else "not told"
    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    shown = "unlimited" if limit == resource.RLIM_INFINITY else show_bytes(limit)
    setting = f"huge pages: {huge}; locked memory: {shown}"
    if patient.accelerator is None:
        return [DoctorFinding("pinned", "not checked", f"pinning needs a device; {setting}")]
    began = time.perf_counter()
    pool = HostPool(patient.accelerator)
    pinned = patient.accelerator.is_pinned(pool.take(PROBE_BYTES))
    seconds = time.perf_counter() - began
    pool.close()
    text = f"{show_bytes(PROBE_BYTES)} registered in {seconds * 1e3:.1f} ms; {setting}"
    if not pinned:
        return [DoctorFinding("pinned", "bad", f"the driver does not take registered memory for pinned; {text}")]
    return [DoctorFinding("pinned", "ok", text, {"register_s": seconds})]


def _link(patient: Patient) -> list[DoctorFinding]:
    link: Link = SimLink(None) if patient.accelerator is None else StreamLink(patient.accelerator)
    pool = HostPool(patient.accelerator)
    up, down = link.speeds(pool.take(PROBE_BYTES), Arena(PROBE_BYTES, patient.accelerator).carve(0, PROBE_BYTES))
    link.close()
    pool.close()
    text = f"{up / 1e9:.1f} GB/s up, {down / 1e9:.1f} GB/s down"
    numbers = {"up_bytes_per_s": up, "down_bytes_per_s": down}
    if patient.accelerator is None:
        return [DoctorFinding("link", "not checked", f"there is none; copies in memory make {text}", numbers)]
    return [DoctorFinding("link", "ok", f"{text}, by events", numbers)]


def _file(patient: Patient) -> list[DoctorFinding]:
    if patient.nvme is None:
        return [DoctorFinding("file", "not checked", "give a folder with --nvme")]
    tier = FileTier(patient.nvme)
    buffer = HostPool().take(PROBE_BYTES)
    extent = tier.allocate(PROBE_BYTES)
    seconds = []
    for transfer in (tier.write, tier.read):
        began = time.perf_counter()
        transfer(extent, buffer).wait()
        seconds.append(time.perf_counter() - began)
    tier.close()
    write, read = (PROBE_BYTES / second for second in seconds)
    way = "direct" if tier.direct else "through the page cache"
    text = f"{read / 1e9:.2f} GB/s read, {write / 1e9:.2f} GB/s written, {way}"
    return [DoctorFinding("file", "ok", text, {"read_bytes_per_s": read, "write_bytes_per_s": write})]


def _identity(patient: Patient) -> list[DoctorFinding]:
    findings: list[DoctorFinding] = []
    for name, way in progress(list(WAYS.items()), "comparing bits"):
        findings += _try((f"bits: {name}", partial(_alike, name=name, way=way)), patient)
    same = sum(finding.verdict == "ok" for finding in findings)
    others = [finding for finding in findings if finding.verdict != "ok"]
    text = f"{same} of {len(findings)} ways to train have the bits of the unwrapped run"
    verdict: Verdict = "ok" if same else "not checked"
    return [DoctorFinding("identity", verdict, text, {"same": same, "of": len(findings)}), *others]


def _alike(patient: Patient, name: str, way: TrainingWay) -> list[DoctorFinding]:
    alike = runs_alike(way, patient.device, patient.wrap)
    if alike is None:
        text = "the unwrapped run has other bits every time on this device"
        return [DoctorFinding(f"bits: {name}", "not checked", text)]
    if not alike:
        return [DoctorFinding(f"bits: {name}", "bad", "the wrapped run has other bits than the unwrapped one")]
    return [DoctorFinding(f"bits: {name}", "ok", "the same bits")]


def _speed(patient: Patient) -> list[DoctorFinding]:
    config = SMALL if patient.small else GPTConfig()
    runs = {budget: _Run(patient, config, budget) for budget in (BUDGET, "100%")}
    seconds: dict[str, list[float]] = {budget: [] for budget in runs}
    # Interleaved: what else the machine does falls on both.
    for turn in range(WARM_STEPS + ROUNDS):
        for budget, run in runs.items():
            took = run.step(turn)
            if turn >= WARM_STEPS:
                seconds[budget].append(took)
    small, whole = (statistics.median(seconds[budget]) for budget in runs)
    stats, _ = (run.end() for run in runs.values())
    text = (
        f"a step takes {small * 1e3:.1f} ms with {BUDGET} of the parameters on the device, {whole * 1e3:.1f} ms with "
        f"all of them; ready {stats['ready_rate']:.0%}, waits {stats['stall_s']:.3f} s in {WARM_STEPS + ROUNDS} steps"
    )
    return [DoctorFinding("speed", "ok", text, {"step_s": small, "all_step_s": whole, **stats})]


class _Run:
    """A model that is trained step by step."""

    def __init__(self, patient: Patient, config: GPTConfig, budget: str) -> None:
        torch.manual_seed(0)
        self._device, self._config = patient.device, config
        self._model = GPT(config)
        self._optimizer = AdamW(self._model.parameters(), lr=1e-3)
        self._cached = patient.wrap(self._model, self._optimizer, budget)

    def step(self, turn: int) -> float:
        """Return the seconds of one step, to the last byte on the host."""
        tokens = batches(self._config, 1, seed=turn)[0].to(self._device)
        began = time.perf_counter()
        self._model(tokens).backward()
        self._optimizer.step()
        self._optimizer.zero_grad()
        return time.perf_counter() - began

    def end(self) -> dict[str, float]:
        """Unwrap, and return what was counted."""
        stats, plan = self._cached.stats(), self._cached.plan
        predicted_s = 0.0 if plan is None else replay_plan(plan, self._cached.engine.plans.speeds).step_s
        self._cached.unwrap()
        return {**stats.as_dict(), "predicted_step_s": predicted_s}


CHECKS: dict[str, Callable[[Patient], list[DoctorFinding]]] = {
    "machine": _machine,
    "device": _device,
    "pinned": _pinned,
    "link": _link,
    "file": _file,
    "identity": _identity,
    "speed": _speed,
}
