"""What a controller tells Prometheus: a text file for the node exporter, a port, or both."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server, write_to_textfile

from rltune.errors import InputError

_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0)


class Metrics:
    """Counters and gauges of one controller."""

    def __init__(self, textfile: Path | None = None, port: int = 0, address: str = "127.0.0.1") -> None:
        self._textfile = textfile
        self.registry = CollectorRegistry()
        r = self.registry
        self._calls = Counter("slurm_calls", "Client processes started, by command", ["command"], registry=r)
        self._changes = Counter(
            "rltune_changes", "Changes of jobs, by kind and outcome", ["kind", "outcome"], registry=r
        )
        self._differs = Counter(
            "rltune_read_back_differences", "Jobs that did not have what was meant, by cause", ["cause"], registry=r
        )
        self._cycles = Counter("rltune_cycles", "Cycles, by outcome", ["outcome"], registry=r)
        self._events = Counter("rltune_events", "Health trips, stops and the like, by kind", ["kind"], registry=r)
        self._cycle_s = Histogram("rltune_cycle_seconds", "A whole cycle", buckets=_SECONDS, registry=r)
        self._decide_s = Histogram("rltune_decide_seconds", "The decision of a cycle", buckets=_SECONDS, registry=r)
        self._gauges = {
            name: Gauge(f"rltune_{name}", about, registry=r)
            for name, about in (
                ("waiting_jobs", "Jobs that wait"),
                ("running_jobs", "Jobs that run"),
                ("held_jobs", "Jobs that carry a change of ours"),
                ("postponed_changes", "Changes left for a later cycle by the rate limit"),
                ("acting", "1 if changes are made"),
                ("last_cycle_timestamp_seconds", "When the last good cycle was"),
                ("gain_share", "Mean wait saved by our order, by replay of the jobs seen"),
            )
        }
        self._seen_calls: dict[str, int] = {}
        self._server: WSGIServer | None = self._serve(port, address) if port else None

    def _serve(self, port: int, address: str) -> WSGIServer:
        try:
            return start_http_server(port, address, self.registry)[0]
        except OSError as error:
            raise InputError(f"metrics cannot be served on {address}:{port}: {error.strerror}") from None

    def calls(self, counted: Mapping[str, int]) -> None:
        """Take over a backend's count of its client processes."""
        for command, count in counted.items():
            self._calls.labels(command).inc(count - self._seen_calls.get(command, 0))
            self._seen_calls[command] = count

    def change(self, kind: str, outcome: str) -> None:
        """Count one change."""
        self._changes.labels(kind, outcome).inc()

    def differs(self, cause: str) -> None:
        """Count a job that does not have what was meant for it."""
        self._differs.labels(cause).inc()

    def event(self, kind: str) -> None:
        """Count something that is no job's."""
        self._events.labels(kind).inc()

    def cycle(self, outcome: str, seconds: float) -> None:
        """Count a cycle."""
        self._cycles.labels(outcome).inc()
        self._cycle_s.observe(seconds)

    def decided(self, seconds: float) -> None:
        """Count a decision."""
        self._decide_s.observe(seconds)

    def set(self, **values: float) -> None:
        """Set gauges by name."""
        for name, value in values.items():
            self._gauges[name].set(value)

    def close(self) -> None:
        """Serve no longer."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def write(self) -> None:
        """Write the text file, if there is one; readers never see half of it."""
        if self._textfile is None:
            return
        try:
            write_to_textfile(str(self._textfile), self.registry)
        except OSError as error:
            raise InputError(f"{self._textfile}: metrics cannot be written: {error.strerror}") from None
