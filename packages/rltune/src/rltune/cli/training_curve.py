"""A training as it goes: how far it is, and the held-out score as a small curve."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rltune.cli.console import notes

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType

    from rltune.learn.train import Progress

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 60  # of the curve


def sparkline(values: Sequence[float], width: int = WIDTH) -> str:
    """Draw positive numbers as bars on a logarithmic scale; of more than `width` only the last."""
    shown = [math.log(max(value, 1e-9)) for value in values[-width:]]
    if not shown:
        return ""
    low, span = min(shown), max(shown) - min(shown)
    return "".join(BARS[round((value - low) / span * (len(BARS) - 1)) if span > 0 else 0] for value in shown)


@contextmanager
def training_display(epochs: int) -> "Iterator[Callable[[Progress], None]]":
    """Show a training on stderr, if that is a terminal."""
    console = notes()
    if not console.is_terminal:
        yield lambda _progress: None
        return
    from rich.console import Group
    from rich.live import Live
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    bar = Bar(TextColumn("training"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    task = bar.add_task("", total=epochs)
    with Live(bar, console=console, transient=True, refresh_per_second=4) as live:

        def show(progress: "Progress") -> None:
            bar.update(task, completed=progress.epoch)
            lines: list[RenderableType] = [bar, *_lines(progress)]
            live.update(Group(*lines))

        yield show


def _lines(progress: "Progress") -> Iterator[str]:
    curve, last = progress.curve, progress.log[-1]
    if progress.best is not None:
        best = f"best {progress.best.score:.3f} (epoch {progress.best_epoch})"
        yield f"held-out cost over the base policy's: {curve[-1]:.3f}, {best}"
        yield sparkline(curve)
    if "reward" in last:
        yield f"reward {last['reward']:+.3f}   entropy {last.get('entropy', 0):.2f}   KL {last.get('approx_kl', 0):.4f}"
