"""How `rltune serve` bears a large cluster and many readers: 10,000 waiting jobs on 2,000 nodes, 50 clients at once.

python benchmarks/rltune/serve_load.py                       # a minute of load, after about as long of preparation
python benchmarks/rltune/serve_load.py --clients 10 --seconds 10 --waiting 1000 --nodes 200

The service runs as a process of its own, as in production. Another process is the controller: it looks at a simulated
cluster and writes a cycle every `--every` seconds. Each client has an address of its own and a live view open, and asks
again as soon as it has its answer. An answer other than 200 is an error, and so is none within 60 seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from rltune import Cluster, Jobs, simulate
from rltune.cluster import NodeGroup
from rltune.errors import InputError
from rltune.live.clock import SystemClock
from rltune.live.control_settings import ControlSettings, PipelineSettings
from rltune.live.controller import Controller
from rltune.live.journal.store import Journal
from rltune.serve.played_cluster import PlayedCluster

GPUS = 8
ALONE = 20  # requests of each kind before the load


def write_journal(path: Path, waiting: int, nodes: int, every_s: float) -> None:
    """Be a controller that watches a crowded cluster, until killed."""
    schedule = crowded(waiting, nodes)
    # About as many wait as were asked for when all have come and nobody has ended yet.
    clock = SystemClock()
    cluster = PlayedCluster(schedule, clock, begin_s=3600.0)
    settings = ControlSettings(pipeline=PipelineSettings(policy="saf", estimator="user"), cycle_s=every_s)
    controller = Controller(cluster, Journal.create(path), settings, clock)
    controller.run()


def crowded(waiting: int, nodes: int) -> Any:
    """Simulate a cluster that was full when so many jobs came."""
    rng = np.random.default_rng(0)
    running = nodes * 2
    count = running + waiting
    gpus = np.concatenate([np.full(running, GPUS // 2), rng.choice([1, 2, 4, 8, 16], waiting)])
    jobs = Jobs.from_arrays(
        submit_s=np.concatenate([np.zeros(running), np.sort(rng.uniform(1.0, 3500.0, waiting))]),
        duration_s=rng.uniform(7200.0, 86_400.0, count),
        gpus=gpus,
        user=rng.integers(0, 300, count),
        name=[f"train-{i % 997}" for i in range(count)],
        limit_s=np.full(count, 86_400.0),
    )
    half = nodes // 2
    groups = (
        NodeGroup(count=half, gpus=GPUS, gpu_type="A100"),
        NodeGroup(count=nodes - half, gpus=GPUS, gpu_type="V100"),
    )
    return simulate(jobs, Cluster(groups=groups, name="crowded"), policy="fcfs", estimator="oracle")


@dataclass
class Tally:
    """How long answers took, and what went wrong."""

    took_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    errors: Counter[str] = field(default_factory=Counter)
    events: int = 0

    async def ask(self, client: httpx.AsyncClient, kind: str, address: str) -> None:
        """Ask once."""
        begin = time.perf_counter()
        try:
            answer = await client.get(address)
        except httpx.HTTPError as error:
            self.errors[f"{kind}: {type(error).__name__}"] += 1
            return
        self.took_s[kind].append(time.perf_counter() - begin)
        if answer.status_code != httpx.codes.OK:
            self.errors[f"{kind}: {answer.status_code}"] += 1

    def lines(self) -> list[str]:
        """Return what each kind took."""
        rows = [f"{'':14}{'requests':>9}{'p50 ms':>9}{'p95 ms':>9}{'max ms':>9}"]
        for kind, took in sorted(self.took_s.items()):
            p50, p95, most = (1000 * float(value) for value in (*np.quantile(took, (0.5, 0.95)), max(took)))
            rows.append(f"{kind:14}{len(took):9,}{p50:9.0f}{p95:9.0f}{most:9.0f}")
        return rows


KINDS = ("overview", "jobs", "search", "sorted", "status", "api jobs", "job", "timeline", "controller", "metrics")


def address_of(kind: str, jobs: list[int], rng: np.random.Generator) -> str:
    """Return what a client of a kind asks for."""
    return {
        "overview": "/",
        "jobs": f"/jobs?offset={100 * rng.integers(0, max(1, len(jobs) // 100))}",
        "search": f"/jobs?search=train-{rng.integers(0, 997)}",
        "sorted": "/jobs?sort=wait&descending=true",
        "status": "/api/v1/status",
        "api jobs": "/api/v1/jobs?state=PENDING&limit=100",
        "job": f"/jobs/{rng.choice(jobs)}",
        "timeline": "/timeline",
        "controller": "/controller",
        "metrics": "/metrics",
    }[kind]


async def one_client(base: str, number: int, until: float, jobs: list[int], tally: Tally) -> None:
    """Ask for one thing after another."""
    rng = np.random.default_rng(number)
    own = httpx.AsyncHTTPTransport(local_address=f"127.0.0.{number % 250 + 2}")  # what one address may ask is limited
    async with httpx.AsyncClient(base_url=base, timeout=60.0, transport=own) as client:
        view = asyncio.create_task(live_view(client, tally))
        while time.perf_counter() < until:
            kind = KINDS[rng.integers(0, len(KINDS))]
            await tally.ask(client, kind, address_of(kind, jobs, rng))
        view.cancel()


async def live_view(client: httpx.AsyncClient, tally: Tally) -> None:
    """Hold a stream of server-sent events open."""
    try:
        async with client.stream("GET", "/api/v1/stream", timeout=None) as answer:
            if answer.status_code != httpx.codes.OK:
                tally.errors[f"stream: {answer.status_code}"] += 1
            async for line in answer.aiter_lines():
                tally.events += line.startswith("event: cycle")
    except httpx.HTTPError as error:
        tally.errors[f"stream: {type(error).__name__}"] += 1


async def measure(base: str, given: argparse.Namespace) -> tuple[Tally, Tally]:
    """Ask alone first, then all at once."""
    alone, together = Tally(), Tally()
    async with httpx.AsyncClient(base_url=base, timeout=60.0) as client:
        found = (await client.get("/api/v1/jobs?state=PENDING&limit=1000")).json()["jobs"]
        jobs = [row["id"] for row in found]
        rng = np.random.default_rng(0)
        for kind in KINDS:
            for _ in range(ALONE if kind not in {"job", "timeline"} else 5):
                await alone.ask(client, kind, address_of(kind, jobs, rng))
    until = time.perf_counter() + given.seconds
    await asyncio.gather(*(one_client(base, i, until, jobs, together) for i in range(given.clients)))
    return alone, together


def started(path: Path) -> tuple[subprocess.Popen[str], str]:
    """Start the service and wait until it has a cycle to show; it says where it listens."""
    command = [
        sys.executable,
        "-c",
        "from rltune.cli import main; main()",
        "serve",
        "--journal",
        str(path),
        "--port",
        "0",
    ]
    service = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert service.stdout is not None
    base = service.stdout.readline().split()[0]
    begin = time.perf_counter()
    while httpx.get(f"{base}/api/v1/status", timeout=60.0).status_code != httpx.codes.OK:
        if time.perf_counter() - begin > 120:
            raise SystemExit("the service has shown no cycle in two minutes")
        time.sleep(0.5)
    return service, base


def peak_mib(pid: int) -> float:
    """Return the most memory that a process has had."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) / 1024


def has_cycle(path: Path) -> bool:
    """Return whether a journal is there, and holds a cycle."""
    try:
        return Journal.read(path).last_cycle() > 0
    except InputError:  # it is being made
        return False


def busy(pid: int) -> float:
    """Return how much processor time a process has used: on a crowded machine that is what can be compared."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Build the cluster, start the service, load it and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--waiting", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=2_000)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--every", type=float, default=15.0, help="seconds between the controller's cycles")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db"
        controller = multiprocessing.Process(target=write_journal, args=(path, given.waiting, given.nodes, given.every))
        controller.start()
        try:
            while not has_cycle(path):
                if not controller.is_alive():
                    raise SystemExit("the controller ended before its first cycle")
                time.sleep(0.5)
            service, base = started(path)
            status = httpx.get(f"{base}/api/v1/status", timeout=60.0).json()
            busy_s = busy(service.pid)
            alone, together = asyncio.run(measure(base, given))
            report(given, status, alone, together, peak_mib(service.pid), busy(service.pid) - busy_s)
            service.terminate()
            service.wait(timeout=30)
        finally:
            controller.terminate()


def report(
    given: argparse.Namespace, status: dict[str, Any], alone: Tally, together: Tally, mib: float, busy_s: float
) -> None:
    """Print what was found."""
    print(f"{status['waiting']:,} jobs wait, {status['running']:,} run on {given.nodes:,} nodes")
    print("one client:", *alone.lines(), sep="\n")
    print(
        f"{given.clients} clients at once for {given.seconds:g} s, each with a live view:", *together.lines(), sep="\n"
    )
    total = sum(map(len, together.took_s.values()))
    print(f"{total:,} requests, {together.events:,} events, {(alone.errors + together.errors).total()} errors", end=" ")
    print(json.dumps(dict(alone.errors + together.errors)))
    every = total + sum(map(len, alone.took_s.values()))
    print(f"memory of the service at its peak: {mib:,.0f} MiB; {busy_s:.1f} s of processor time, with", end=" ")
    print(f"new cycles and forecasts, for {every:,} requests; load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
