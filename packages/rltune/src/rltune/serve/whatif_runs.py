"""What-if questions that are being worked out: a page shows how far each is, and then its answer."""

from __future__ import annotations

import logging
import secrets
import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from rltune.errors import InputError
from rltune.serve.answers import Answers
from rltune.serve.tokens import Caller
from rltune.whatif import WhatIf, parse_edit

_AT_ONCE = 2
_KEPT = 50


@dataclass
class WhatIfRun:
    """One question, who asked it, and how far it is."""

    changes: tuple[str, ...]
    asked_by: str
    done: int = 0  # futures
    total: int = 0
    answer: WhatIf | None = None
    error: str = ""

    @property
    def is_over(self) -> bool:
        """Return whether there is an answer, or never will be."""
        return self.answer is not None or bool(self.error)


class WhatIfRuns:
    """The newest questions, by a number that nobody else can guess."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="what-if")
        self._runs: OrderedDict[str, WhatIfRun] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, changes: Sequence[str], caller: Caller) -> str:
        """Begin to work a question out; InputError if a change is not understood."""
        for text in changes:
            parse_edit(text)
        run, number = WhatIfRun(tuple(changes), caller.name), secrets.token_urlsafe(12)
        with self._lock:
            self._runs[number] = run
            while len(self._runs) > _KEPT:
                self._runs.popitem(last=False)
        self._pool.submit(self._work, run)
        return number

    def find(self, number: str, caller: Caller) -> WhatIfRun | None:
        """Return a question of this caller's; None if it is another's, or no longer kept."""
        run = self._runs.get(number)
        return run if run is not None and run.asked_by == caller.name else None

    def close(self) -> None:
        """Begin nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _work(self, run: WhatIfRun) -> None:
        failed = "it failed; the log of the service says why"
        try:
            run.answer = self._answers.what_if(run.changes, progress=lambda _, total: _count(run, total))
            failed = ""
        except InputError as error:
            failed = str(error)
        except Exception:  # the pool would keep it to itself
            logging.getLogger(__name__).exception("what-if failed: %s", ", ".join(run.changes))
        finally:
            run.error = failed


def _count(run: WhatIfRun, rolls: int) -> None:
    """Count a future; as many are rolled with the changes as without."""
    run.done, run.total = run.done + 1, 2 * rolls
