"""The model solved by HiGHS: started from the greedy answer, bounded by work, and by the clock where told."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

import numpy as np

from rltune.placement.greedy import Values, finish, greedy, worth

if TYPE_CHECKING:
    from rltune.placement.program import Program

INF = float("inf")


class SolverWarning(UserWarning):
    """The solver is missing or failed; greedy placement goes on without it."""


@dataclass(frozen=True)
class Effort:
    """How hard the solver may try: by work, so that results do not depend on load."""

    nodes: int = 10  # of branch and bound
    ties: bool = False  # prove the best also in idle nodes, largest requests and nodes, not only in who starts when


@dataclass(frozen=True)
class Answer:
    """The better of two answers, and by how much. `in_time` is False if the solver's was not waited for."""

    values: Values
    greedy: Values
    worth: int
    greedy_worth: int
    optimal: bool = False
    in_time: bool = True

    @classmethod
    def best_of(cls, model: Program, greedy: Values, others: Sequence[Values]) -> Answer:
        """Take the first of the best."""
        best = max((greedy, *others), key=lambda values: worth(model, values))
        return cls(best, greedy, worth(model, best), worth(model, greedy))


def without_solver(model: Program) -> Answer:
    """Return the better of the two greedy answers, for a solve that there is no time for."""
    return replace(Answer.best_of(model, greedy(model), [greedy(model, wider=True)]), in_time=False)


class _Status(Enum):
    OPTIMAL = auto()
    FEASIBLE = auto()
    LATE = auto()


class Solver:
    """HiGHS, kept between calls. It says once if it does not work, and gives the greedy answer from then on."""

    def __init__(self, effort: Effort | None = None) -> None:
        self.effort = effort or Effort()
        self.error = ""
        self._highs: Any = None
        self._module: Any = None

    def answer(self, model: Program, seconds: float = INF) -> Answer:
        """Return the solver's answer if it is better than the greedy ones, else the better of these.

        An answer that is not there after `seconds` counts for nothing, however good it might be: what the clock cuts
        short cannot be made again, and what it left out can.
        """
        plain, first = greedy(model), greedy(model, wider=True)
        solved, status = self._solve(model, first, seconds)
        if status == _Status.LATE:
            return without_solver(model)
        made = Answer.best_of(model, plain, [first] if solved is None else [first, finish(model, solved)])
        return replace(made, optimal=status == _Status.OPTIMAL)

    def _start(self) -> bool:
        """Load HiGHS once."""
        if self._highs is None and not self.error:
            try:
                import highspy
            except ImportError as error:
                self._fail(f"the solver HiGHS cannot be loaded ({error}); install highspy")
                return False
            self._module = highspy
            self._highs = highspy.Highs()  # type: ignore[no-untyped-call]
            options = {
                "output_flag": False,
                "threads": 1,
                "random_seed": 0,
                "mip_rel_gap": 0.0,
                "mip_max_nodes": self.effort.nodes,
                "mip_heuristic_effort": 0.0,  # the greedy answer is the heuristic
                "mip_heuristic_run_feasibility_jump": False,  # it took two thirds of the time and found nothing
                "mip_detect_symmetry": False,  # nodes alike are one class already
            }
            for name, value in options.items():
                self._highs.setOptionValue(name, value)
        return not self.error

    def _fail(self, reason: str) -> None:
        self.error = reason
        message = f"{reason}; greedy placement goes on without it"
        warnings.warn(message, SolverWarning, stacklevel=2)

    def _solve(self, model: Program, first: Values, seconds: float) -> tuple[Values | None, _Status]:
        if not model.cost or not self._start():
            return None, _Status.FEASIBLE if model.cost else _Status.OPTIMAL
        highs, module = self._highs, self._module
        highs.clearModel()
        highs.setOptionValue("mip_abs_gap", 0.9 * (1 if self.effort.ties else model.weights.early))
        highs.setOptionValue("time_limit", seconds)
        if highs.passModel(self._program(model)) == module.HighsStatus.kError:
            self._fail("the solver HiGHS failed: it refused the program")
            return None, _Status.FEASIBLE
        solution = module.HighsSolution()
        solution.col_value = [float(v) for v in first]
        highs.setSolution(solution)
        run = highs.run()
        status = highs.getModelStatus()
        if run == module.HighsStatus.kError or status in {
            module.HighsModelStatus.kSolveError,
            module.HighsModelStatus.kModelError,
        }:
            self._fail(f"the solver HiGHS failed with {highs.modelStatusToString(status)}")
            return None, _Status.FEASIBLE
        if status == module.HighsModelStatus.kTimeLimit:
            return None, _Status.LATE
        values = [round(v) for v in highs.getSolution().col_value]
        if len(values) != len(model.cost) or not feasible(model, values):
            return None, _Status.FEASIBLE
        return values, _Status.OPTIMAL if status == module.HighsModelStatus.kOptimal else _Status.FEASIBLE

    def _program(self, model: Program) -> Any:
        module = self._module
        lp = module.HighsLp()
        n, m = len(model.cost), len(model.rows)
        lp.num_col_, lp.num_row_ = n, m
        lp.sense_ = module.ObjSense.kMaximize
        lp.col_cost_ = np.array(model.cost, dtype=np.float64)
        lp.col_lower_ = np.zeros(n)
        lp.col_upper_ = np.array(model.upper, dtype=np.float64)
        bound = np.array([r.bound for r in model.rows], dtype=np.float64)
        lp.row_upper_ = bound
        lp.row_lower_ = np.where([r.equal for r in model.rows], bound, -np.inf)
        lp.a_matrix_.format_ = module.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.cumsum([0, *(len(r.terms) for r in model.rows)], dtype=np.int32)
        lp.a_matrix_.index_ = np.array([i for r in model.rows for i, _ in r.terms], dtype=np.int32)
        lp.a_matrix_.value_ = np.array([a for r in model.rows for _, a in r.terms], dtype=np.float64)
        lp.integrality_ = [module.HighsVarType.kInteger] * n
        return lp


def feasible(model: Program, values: Values) -> bool:
    """Check an answer against every row, in whole numbers."""
    if any(not 0 <= v <= u for v, u in zip(values, model.upper, strict=True)):
        return False
    for row in model.rows:
        total = sum(values[i] * amount for i, amount in row.terms)
        if total > row.bound or (row.equal and total != row.bound):
            return False
    return True
