"""Progress on stderr, for people: silent when it is not a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rltune.cli.console import notes

Tell = Callable[[int, int, str], None]  # done, in all, what was done last


@contextmanager
def spinner(doing: str) -> Iterator[None]:
    """Turn while something is done whose end is not known."""
    console = notes()
    if not console.is_terminal:
        yield
        return
    from rich.markup import escape

    with console.status(escape(doing)):
        yield


@contextmanager
def bar(doing: str) -> Iterator[Tell]:
    """Show how much is done, how long it took and how long it will."""
    console = notes()
    if not console.is_terminal:
        yield lambda _done, _total, _last: None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[last]}", markup=False, style="dim"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(doing, total=None, last="")
        yield lambda done, total, last: progress.update(task, completed=done, total=total, last=last)


@contextmanager
def counting_bar(title: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar that is told how many of something are done, of how many."""
    with bar(title) as tell:
        yield lambda done, total: tell(done, total, unit)
