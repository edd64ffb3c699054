"""The forward and the backward that run now: in which thread, and whether they still run at all."""

import sys
import threading
from types import FrameType
from typing import NoReturn

import torch
from torch.autograd.graph import _engine_run_backward

from tencache.errors import RefusedError


class RunningBackward:
    """The one backward that runs. Nobody tells when it ends, so the thread that called it is asked what it does."""

    def __init__(self) -> None:
        self._thread: int | None = None

    def begin(self, forward: "RunningForward") -> None:
        """Take in that a backward runs here, unless another one, or a forward, runs in another thread."""
        before, thread = self._thread, _backward_thread()
        if thread is None:
            self._thread = None
            return
        if before != thread and _runs_backward(before):
            _refuse()
        # Noted before it asks, as a forward does: if both begin at once, at least one sees the other.
        self._thread = thread
        # On a GPU this is a thread of autograd's own, and a forward may ask for gradients itself.
        if forward.thread not in {None, thread, threading.get_ident()}:
            self._thread = before
            _refuse()

    def is_elsewhere(self) -> bool:
        """Return whether it runs in another thread than this, and this is not one of autograd's own."""
        return self._thread != threading.get_ident() and not _in_backward() and _runs_backward(self._thread)


class RunningForward:
    """The one forward that runs: what lies on the device is planned for one at a time."""

    def __init__(self, backward: RunningBackward) -> None:
        self._backward = backward
        self._holder: dict[str, int] = {}
        self._call: FrameType | None = None
        self.depth = 0

    @property
    def thread(self) -> int | None:
        """Return the thread in which a forward runs, or an operation outside of one."""
        return self._holder.get("thread")

    def claim(self) -> None:
        """Let this thread be the one that uses the device, unless another one does."""
        here = threading.get_ident()
        # One operation of the interpreter, so that two threads cannot both be first.
        if self._holder.setdefault("thread", here) != here:
            _refuse()
        if not self.depth and self._backward.is_elsewhere():
            self.let_go()
            _refuse()

    def let_go(self) -> None:
        """End what was claimed."""
        self._holder.clear()

    def enter(self) -> None:
        """Begin a forward here, or one inside it, unless one runs elsewhere."""
        self.claim()
        if not self.depth:
            self._call = _module_call()
        self.depth += 1

    def is_here(self) -> bool:
        """Return whether the forward that runs is this thread's."""
        return self.thread == threading.get_ident()

    def leave(self) -> bool:
        """End it; return whether it was the outermost, of which `let_go()` is to be called when all is put away."""
        self.depth -= 1
        if self.depth:
            return False
        self._call = None
        return True

    def was_broken_off(self) -> bool:
        """Return whether the forward that was begun in this thread is gone without having been ended.

        torch tells of a forward that failed, but not of one that Ctrl-C has ended.
        """
        return self._call is not None and not _executes(self._call) and self.is_here()

    def refuse_another(self) -> None:
        """Refuse if this is another thread, but for autograd's own."""
        if not self.is_here() and not _in_backward():
            _refuse()


def _refuse() -> NoReturn:
    raise RefusedError(
        "two threads run the model at once, and its device copies are planned for one: let one wait for the other "
        "(a lock around the call), or wrap a copy of the model for each"
    )


def _in_backward() -> bool:
    return torch._C._current_graph_task_id() != -1  # noqa: SLF001  no public name gives it


def _backward_thread() -> int | None:
    """Return the thread that called the backward which runs here, if that can be told."""
    # On a GPU autograd has threads of its own, which may call backward() again. The one that called it first waits.
    found = [
        thread.ident
        for thread in threading.enumerate()
        if not isinstance(thread, threading._DummyThread) and _runs_backward(thread.ident)  # noqa: SLF001
    ]
    if (here := threading.get_ident()) in found:
        return here
    return found[0] if len(found) == 1 else None


def _runs_backward(thread: int | None) -> bool:
    """Return whether a thread is within backward(), or has called it."""
    frame = None if thread is None else sys._current_frames().get(thread)  # noqa: SLF001  no public name gives it
    while frame is not None:
        if frame.f_code is _RUN_BACKWARD:
            return True
        frame = frame.f_back
    return False


_RUN_BACKWARD = _engine_run_backward.__code__


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
