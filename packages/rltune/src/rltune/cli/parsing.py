"""What several commands read out of an option's words."""

from typing import TYPE_CHECKING

from rltune.errors import InputError

if TYPE_CHECKING:
    from rltune.trials.windows import WindowSpec

SYNTH = "synth:"
WIDEST = 4096  # units of a layer


def split(names: str) -> list[str]:
    """Take a list with commas apart."""
    return [name.strip() for name in names.split(",") if name.strip()]


def split_traces(text: str) -> list[str]:
    """Take a list of traces apart; a comma within `synth:philly,jobs=5000` does not end it."""
    listed: list[str] = []
    for part in split(text):
        if listed and listed[-1].startswith(SYNTH) and "=" in part and ":" not in part:
            listed[-1] += f",{part}"
        else:
            listed.append(part)
    return listed


def cluster_for_each(traces: list[str], clusters: str) -> list[str]:
    """Name a cluster for every trace: as many as there are traces, or one for all."""
    names = split(clusters)
    if len(names) not in {1, len(traces)}:
        raise InputError(f"{len(traces)} traces and {len(names)} clusters: give one cluster for each, or one for all")
    return names * len(traces) if len(names) == 1 else names


def widths(text: str) -> tuple[int, ...]:
    """Read the widths of two layers or three, such as `32x16`."""
    parts = text.lower().split("x")
    if len(parts) not in {2, 3} or not all(p.isdigit() and 0 < int(p) <= WIDEST for p in parts):
        raise InputError(f"hidden layers {text!r} are not understood; write two widths or three, such as 32x16")
    return tuple(map(int, parts))


def drawn_windows(text: str | None, min_wait_s: float) -> "WindowSpec | None":
    """Read which windows a training draws, if that is told."""
    from rltune.trials.windows import parse_counted

    return parse_counted(text, min_wait_s=min_wait_s) if text is not None else None
