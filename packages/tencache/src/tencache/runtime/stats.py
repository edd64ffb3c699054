"""What the cache did, as numbers: a plain dictionary, a text, or scalars for TensorBoard."""

from dataclasses import asdict, dataclass
from typing import Any, Protocol

from tencache.quantity import show_bytes
from tencache.runtime.counters import Counters
from tencache.runtime.memory.host_pool import HostPool
from tencache.runtime.memory.link import Link
from tencache.runtime.memory.nvme_file import FileTier
from tencache.runtime.optimizer.filed_state import StateStore


class ScalarWriter(Protocol):
    """TensorBoard's SummaryWriter, as far as it is needed here."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int | None = None) -> None:
        """Log one number."""


@dataclass(frozen=True)
class Stats:
    """Sums and ratios since the model was wrapped.

    `device_kept_bytes` are parameters that stay on the device with their gradients and optimizer state, if that pays.
    `resident` says that everything fits the device and stays there: only the first step was counted but for `steps`.
    A touch is a hit if its unit was on the device, or on its way, before it was asked for; it is ready if it did not
    wait.
    """

    steps: int
    resident: bool
    touches: int
    hit_rate: float
    ready_rate: float
    demand_loads: int
    order_changes: int
    plans: int
    planning_s: float
    stall_s: float
    load_stall_s: float
    gradient_stall_s: float
    file_stall_s: float
    activation_stall_s: float
    optimizer_s: float
    late_updates: int
    early_updates: int
    discarded_updates: int
    up_bytes: int
    up_floor_bytes: int
    down_bytes: int
    down_floor_bytes: int
    file_read_bytes: int
    file_written_bytes: int
    device_budget_bytes: int
    device_peak_bytes: int
    device_kept_bytes: int
    device_utilisation: float
    gradients_in_flight_peak_bytes: int
    activation_bytes: int
    activation_again_bytes: int
    activation_peak_bytes: int
    host_pinned_bytes: int
    host_asked_bytes: int
    host_peak_bytes: int
    host_utilisation: float
    host_buffers_reused: int
    file_bytes: int
    state_in_memory_bytes: int
    state_in_file_bytes: int

    def as_dict(self) -> dict[str, float]:
        """Return every number by name."""
        return asdict(self)

    def log(self, writer: ScalarWriter, step: int) -> None:
        """Write every number to TensorBoard under `tencache/`."""
        for name, value in self.as_dict().items():
            writer.add_scalar(f"tencache/{name}", value, step)

    def __str__(self) -> str:
        device = f"{show_bytes(self.device_peak_bytes)} of {show_bytes(self.device_budget_bytes)}"
        if self.device_kept_bytes:
            device += f" ({show_bytes(self.device_kept_bytes)} stays)"
        host = f"{show_bytes(self.host_peak_bytes)} of {show_bytes(self.host_pinned_bytes)} pinned"
        up = f"{show_bytes(self.up_bytes)} (floor {show_bytes(self.up_floor_bytes)})"
        down = f"{show_bytes(self.down_bytes)} (floor {show_bytes(self.down_floor_bytes)})"
        stalls = f"loads {self.load_stall_s:.3f}, gradients {self.gradient_stall_s:.3f}, file {self.file_stall_s:.3f}"
        stays = ", all on the device since the first" if self.resident else ""
        lines: tuple[str, ...] = (
            f"steps    {self.steps}, with {self.plans} plans and {self.order_changes} changes of order{stays}",
            f"touches  {self.touches}: hit {self.hit_rate:.1%}, ready {self.ready_rate:.1%}",
            f"stalls   {self.stall_s:.3f} s: {stalls}",
            f"moved    up {up}, down {down}",
            f"memory   device {device}, host {host}, file {show_bytes(self.file_bytes)}",
        )
        if self.activation_bytes or self.activation_again_bytes:
            went = f"{show_bytes(self.activation_bytes)} to the host and back, waited {self.activation_stall_s:.3f} s"
            if self.activation_again_bytes:
                went = f"{went}, {show_bytes(self.activation_again_bytes)} computed again"
            lines = (*lines, f"saved    {show_bytes(self.activation_peak_bytes)} on the device at most, {went}")
        return "\n".join(lines)


def gather(
    counters: Counters,
    link: Link,
    host_pool: HostPool,
    file: FileTier | None,
    store: StateStore | None,
    *,
    budget_bytes: int,
    resident: bool,
) -> Stats:
    """Return what every part has counted so far."""
    pool = host_pool.stats()
    return Stats(
        steps=counters.steps,
        resident=resident,
        touches=counters.touches,
        hit_rate=_share(counters.hits, counters.touches),
        ready_rate=_share(counters.ready, counters.touches),
        demand_loads=counters.demand_loads,
        order_changes=counters.order_changes,
        plans=counters.plans,
        planning_s=counters.planning_s,
        stall_s=counters.stall_s,
        load_stall_s=counters.load_stall_s,
        gradient_stall_s=counters.gradient_stall_s,
        file_stall_s=counters.file_stall_s,
        activation_stall_s=counters.activation_stall_s,
        optimizer_s=counters.optimizer_s,
        late_updates=counters.late_updates,
        early_updates=counters.early_updates,
        discarded_updates=counters.discarded_updates,
        up_bytes=link.up.bytes_moved,
        up_floor_bytes=counters.up_floor_bytes,
        down_bytes=link.down.bytes_moved,
        down_floor_bytes=counters.down_floor_bytes,
        device_budget_bytes=budget_bytes,
        device_peak_bytes=counters.device_peak_bytes,
        device_kept_bytes=counters.device_kept_bytes,
        device_utilisation=_share(counters.device_peak_bytes, budget_bytes),
        gradients_in_flight_peak_bytes=counters.gradients_in_flight_peak_bytes,
        activation_bytes=counters.activation_bytes,
        activation_again_bytes=counters.activation_again_bytes,
        activation_peak_bytes=counters.activation_peak_bytes,
        host_pinned_bytes=pool.pinned_bytes,
        host_asked_bytes=pool.asked_bytes,
        host_peak_bytes=pool.peak_bytes,
        host_utilisation=_share(pool.peak_bytes, pool.pinned_bytes),
        host_buffers_reused=pool.reused,
        **_file_numbers(file, store),
    )


def _file_numbers(file: FileTier | None, store: StateStore | None) -> dict[str, Any]:
    return {
        "file_read_bytes": 0 if file is None else file.reads.bytes_moved,
        "file_written_bytes": 0 if file is None else file.writes.bytes_moved,
        "file_bytes": 0 if file is None else file.size_bytes,
        "state_in_memory_bytes": 0 if store is None else store.shares.kept_bytes,
        "state_in_file_bytes": 0 if store is None else store.shares.filed_bytes,
    }


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 1.0
