"""Pages that were rendered, kept for whoever asks for the same next: most who look at a cycle look at the same."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable

from anyio import CapacityLimiter, to_thread

_AT_ONCE = 3  # that are rendered: it takes the interpreter, and more would not be faster
_MOST = 300  # pages; one of a hundred jobs has 50 kB


class KeptPages:
    """The newest pages by what they were made from: a cycle, a question and who asked.

    A key names everything that a page shows, so that nobody is given another's, or an older one.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._pages: OrderedDict[Hashable, bytes] = OrderedDict()
        self._making = CapacityLimiter(_AT_ONCE)  # who waits for it holds no thread that others need

    async def at_hand_or_made(self, key: Hashable, make: Callable[[], str]) -> bytes:
        """Return a page that was made before, at once; else make it beside those who are answered at once."""
        page = self._pages.get(key)
        return page if page is not None else await to_thread.run_sync(self._made, key, make, limiter=self._making)

    def _made(self, key: Hashable, make: Callable[[], str]) -> bytes:
        """Make a page, unless another has just done so; the oldest gives way."""
        page = self._pages.get(key)
        if page is None:
            page = self._pages[key] = make().encode()
            while len(self._pages) > self._most:
                self._pages.popitem(last=False)
        return page
