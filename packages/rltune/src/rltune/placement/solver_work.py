"""What the solver did in a run, counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

GIVEN_UP = "milp_given_up"


@dataclass
class Work:
    """What the solver did in a run; milliseconds are for the reader, no decision depends on them."""

    skipped_nothing_waits: int = 0
    skipped_nothing_fits: int = 0
    skipped_all_start: int = 0
    skipped_owed: int = 0  # pools where an owed or SLA job waits: its turn comes in the ordinary pass
    skipped_one_way: int = 0
    solved: int = 0
    optimal: int = 0
    better_than_greedy: int = 0
    started_by_solver: int = 0
    started_wider: int = 0  # of those, on one node more than needed
    cut_behind: int = 0  # jobs that started on one node more in their turn, without the solver
    more_starts: int = 0  # jobs that greedy placement would not have started in that pass
    unpacked: int = 0  # answers that could not be packed on the nodes, solved again with the nodes apart
    unkept: int = 0  # answers that were better by promises alone which the nodes could not keep
    k_total: int = 0
    ms: list[float] = field(default_factory=list)  # of each pass, skipped or not
    solve_ms: list[float] = field(default_factory=list)  # of each pool solved: snapshot, model, solver, nodes
    given_up: list[int] = field(default_factory=list)  # solves, by number, that the clock left without an answer
    error: str = ""  # why there is no solver

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, with percentiles in place of the lists."""
        plain: dict[str, Any] = {f"milp_{k}": v for k, v in vars(self).items() if isinstance(v, int) and k != "k_total"}
        passes = len(self.ms)
        looked = passes - self.skipped_nothing_waits
        plain["milp_k_mean"] = self.k_total / looked if looked else 0.0
        plain["milp_skip_rate"] = 1.0 - len(self.solve_ms) / passes if passes else 1.0
        plain["milp_out_of_time"] = len(self.given_up)
        for name, values in (("pass", self.ms), ("solve", self.solve_ms)):
            for p in (50, 99):
                plain[f"milp_{name}_ms_p{p}"] = float(np.percentile(values, p)) if values else 0.0
        plain["milp_ms_total"] = float(np.sum(self.ms))
        late = {GIVEN_UP: list(self.given_up)} if self.given_up else {}
        return {**plain, **late, **({"milp_error": self.error} if self.error else {})}
