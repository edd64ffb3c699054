"""The forward that runs now: in which thread, how deep, and whether it still runs at all."""

import sys
import threading
from types import FrameType

import torch

from tencache.errors import RefusedError


class RunningForward:
    """The one forward that runs: what lies on the device is planned for one at a time."""

    def __init__(self) -> None:
        self._holder: dict[str, int] = {}
        self._call: FrameType | None = None
        self.depth = 0

    def enter(self) -> None:
        """Begin a forward here, or one inside it, unless one runs elsewhere."""
        here = threading.get_ident()
        # One operation of the interpreter, so that two threads cannot both be first.
        if self._holder.setdefault("thread", here) != here:
            self._refuse()
        if not self.depth:
            self._call = _module_call()
        self.depth += 1

    def is_here(self) -> bool:
        """Return whether the forward that runs is this thread's."""
        return self._holder.get("thread") == threading.get_ident()

    def leave(self) -> bool:
        """End it; return whether it was the outermost."""
        self.depth -= 1
        if self.depth:
            return False
        self._call = None
        self._holder.clear()
        return True

    def was_broken_off(self) -> bool:
        """Return whether the forward that was begun in this thread is gone without having been ended.

        torch tells of a forward that failed, but not of one that Ctrl-C has ended.
        """
        return self._call is not None and not _executes(self._call) and self.is_here()

    def refuse_another(self) -> None:
        """Refuse if this is another thread, but for autograd's own."""
        if not self.is_here() and torch._C._current_graph_task_id() == -1:  # noqa: SLF001
            self._refuse()

    @staticmethod
    def _refuse() -> None:
        raise RefusedError(
            "two threads run the model at once, and its device copies are planned for one: let one wait for the other "
            "(a lock around the call), or wrap a copy of the model for each"
        )


def _module_call() -> FrameType | None:
    """Return the frame of the module's call that runs the hook which this is called from."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  no public name gives it without walking the stack
    while frame is not None and frame.f_code.co_name != "_call_impl":
        frame = frame.f_back
    return frame


def _executes(frame: FrameType) -> bool:
    """Return whether a call is not over yet."""
    # The interpreter has no other way to ask. Of a call that is over this drops the variables, which nobody needs.
    try:
        frame.clear()
    except RuntimeError:
        return True
    return False
