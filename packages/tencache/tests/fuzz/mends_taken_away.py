"""Whether the fuzzer finds what once was wrong: `python packages/tencache/tests/fuzz/mends_taken_away.py [WORD ...]`.

Each mend is taken away, and drawn programs that have to do with it are tried until one is wrong, or refused that was
not. They are the fuzzer's, in its order; all others are left out to save time.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
from training_programs import Program, drawn, judge

from tencache.runtime.cycle.engine import Engine
from tencache.runtime.hooks import operation_router
from tencache.runtime.hooks.operation_router import OperationRouter
from tencache.runtime.hooks.saved_tensors import SavedTensors
from tencache.runtime.optimizer import filed_state, held_elsewhere, sliced_step
from tencache.runtime.optimizer.watched_state import WatchedState
from tencache.runtime.tensors import masters, other_memory
from tencache.runtime.unrouted import Bookkeeping

SEEDS, EACH_SEED, MOST_TRIED = 12, 250, 60
_run_on = OperationRouter._run_on


@dataclass(frozen=True)
class Mend:
    """What stands in a mend's place, which programs have to do with it, and what they are without it."""

    away: tuple[Callable[[], AbstractContextManager[Any]], ...]
    concerns: Callable[[Program], bool]
    found: str = "wrong"


def _hand_out_leaves(
    router: OperationRouter, leaves: dict[int, torch.Tensor], func: Any, entries: Any, args: Any, kwargs: Any
) -> Any:
    """Run an operation, and return the device's own tensor where it returns its argument."""
    result = _run_on(router, leaves, func, entries, args, kwargs)
    return leaves.get(id(result), result)


def _stay_in_the_users_mode(bookkeeping: Bookkeeping) -> None:
    Bookkeeping.depth += 1
    bookkeeping._contexts = ()


def _casts_are_shared(program: Program) -> bool:
    shared = any(turn.forwards > 1 or turn.batches > 1 for turn in program.turns)
    return program.precision.startswith("autocast") and shared


def _nothing(*_: Any) -> None:
    return None


MENDS = {
    "operations that return their argument": Mend(
        (lambda: patch.object(OperationRouter, "_run_on", _hand_out_leaves),),
        lambda program: any(
            layer.through in {"to", "contiguous", "float", "type_as", "dropout_off"} for layer in program.layers
        ),
    ),
    "optimizers that couple parameters": Mend(
        (lambda: patch.object(sliced_step, "may_be_sliced", lambda _: True),),
        lambda program: program.optimizer in {"norm", "noise", "count"},
    ),
    "casts shared over forwards": Mend(
        (lambda: patch.object(Engine, "_note_change", _nothing),),
        _casts_are_shared,
    ),
    "inference mode": Mend(
        (lambda: patch.object(Bookkeeping, "__enter__", _stay_in_the_users_mode),),
        lambda program: any("inference" in turn.evaluate for turn in program.turns),
    ),
    "views from before the wrap": Mend(
        (lambda: patch.object(masters, "held_outside", lambda _: set()),),
        lambda program: program.alias in {"before", "before_rows", "one_buffer"},
    ),
    "memory of an array": Mend(
        (
            lambda: patch.object(other_memory, "is_seen_outside", lambda _: False),
            lambda: patch.object(held_elsewhere, "is_seen_outside", lambda _: False),
        ),
        lambda program: program.alias == "array" or any("array" in turn.hold + turn.between for turn in program.turns),
    ),
    "states in the order of the parameters": Mend(
        (lambda: patch.object(WatchedState, "_put_in_order", _nothing),),
        lambda program: program.budget > 60,
    ),
    "backward after step": Mend(
        (lambda: patch.object(SavedTensors, "_check_version", _nothing),),
        lambda program: any(turn.step_twice for turn in program.turns),
    ),
    "an LSTM as one operation": Mend(
        (lambda: patch.object(operation_router, "in_parts", _nothing),),
        lambda program: any(layer.kind in {"LSTM", "GRU"} for layer in program.layers),
        "refused",
    ),
    "a state in the file that is held": Mend(
        (
            lambda: patch.object(sliced_step, "state_is_held", lambda *_: False),
            lambda: patch.object(filed_state, "is_opened", lambda _: False),
        ),
        lambda program: bool(program.file) and any("hold_state" in turn.hold + turn.between for turn in program.turns),
    ),
}


def _concerned(mend: Mend) -> Iterator[Program]:
    for start in range(SEEDS):
        yield from filter(mend.concerns, drawn(EACH_SEED, 500 + start))


def find(mend: Mend) -> str:
    """Return what the first program came to that shows that the mend is gone, and how many were tried."""
    for number, program in enumerate(_concerned(mend), 1):
        with ExitStack() as stack:
            for away in mend.away:
                stack.enter_context(away())
            verdict = judge(program)
        if verdict.startswith(mend.found) and not judge(program).startswith(mend.found):
            return f"found by the {number}. program that has to do with it: {verdict.splitlines()[0][:80]}"
        if number == MOST_TRIED:
            break
    return f"NOT FOUND in {number} programs"


def main() -> None:
    """Try each mend that is named, or all."""
    torch.set_num_threads(1)
    words = sys.argv[1:]
    for name, mend in MENDS.items():
        if not words or any(word in name for word in words):
            sys.stdout.write(f"{name:<40} {find(mend)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
