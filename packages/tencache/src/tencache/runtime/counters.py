"""Counts what happens while a model trains."""

from dataclasses import dataclass


@dataclass
class Counters:
    """Sums since wrapping; `stats()` divides them."""

    steps: int = 0
    touches: int = 0
    hits: int = 0
    ready: int = 0
    demand_loads: int = 0
    order_changes: int = 0
    plans: int = 0
    load_stall_s: float = 0.0
    gradient_stall_s: float = 0.0
    file_stall_s: float = 0.0
    planning_s: float = 0.0
    up_floor_bytes: int = 0
    down_floor_bytes: int = 0
    gradients_in_flight_peak_bytes: int = 0
    device_peak_bytes: int = 0
    device_kept_bytes: int = 0
    optimizer_s: float = 0.0
    late_updates: int = 0
    early_updates: int = 0
    discarded_updates: int = 0
    # What autograd saved: bytes sent to the host and computed again, the most on the device, and the wait for copies.
    activation_bytes: int = 0
    activation_again_bytes: int = 0
    activation_peak_bytes: int = 0
    activation_stall_s: float = 0.0

    @property
    def stall_s(self) -> float:
        """Return the seconds in which compute waited for bytes."""
        return self.load_stall_s + self.gradient_stall_s + self.file_stall_s + self.activation_stall_s
