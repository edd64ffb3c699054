"""Options as they were written before: they work for one release, and what to write instead is said once.

To end them, delete this module and its use in `command.py`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rltune.cli.parsing import split_traces

WINDOWS = "--windows"
_TRACE = {"--trace": "TRACE", "-t": "TRACE"}
_WORKERS = {"--jobs": "--workers", "-j": "--workers"}
_HELD_OUT = {"--every": "windows every", "--contended": "windows contended"}
_DRAWN = {
    "--size": "windows size",
    "--contended": "windows contended",
    "--threads": "--workers",
    "--pool": "set pool",
    "--hidden": "set hidden",
    "--held-windows": "set held_windows",
    "--vary-load": "set variation.load",
    "--vary-cluster": "set variation.cluster",
    "--head": "set head",
}

# By command and old option: an argument, a new option, a part of --windows, or a key of the settings.
OLD: dict[str, dict[str, str]] = {
    "simulate": {**_TRACE, "--jobs": "--jobs-file"},
    "compare": {**_TRACE, "--jobs": "--jobs-file", "--policies": "--policy"},
    "evaluate": {**_WORKERS, **_HELD_OUT, "--policies": "--policy"},
    "transfer": {
        **_WORKERS,
        **_HELD_OUT,
        "--models": "--policy",
        "-m": "--policy",
        "--traces": "TRACE",
        "-t": "TRACE",
        "--clusters": "--cluster",
    },
    "train": {
        **_DRAWN,
        "--view": "set view",
        "--reward": "set reward",
        "--imitate": "set imitate",
        "--held-size": "set held_size",
        "--held-every": "set held_every",
        "--patience": "set patience",
        "--rate": "set ppo.actor_rate",
        "--passes": "set ppo.passes",
        "--entropy": "set ppo.entropy",
    },
    "evolve": {
        **_DRAWN,
        "--cycle": "set cycle_s",
        "--guard": "set guard",
        "--bends": "set bends",
        "--tried": "set evolve.tried",
    },
}
WROTE_SECOND = ("convert", "synth", "anonymise")  # these named the file to write as a second argument
_FLAGS = ("--force", "-f", "--help", "--")
# What --windows is if it is not given, for those that are told only a part of it.
USUAL_WINDOWS = {"evaluate": "1024", "transfer": "1024", "train": "100x256", "evolve": "14x1024"}


@dataclass
class _Rewritten:
    """Words on the way from the old spelling to the new."""

    front: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    parts: dict[str, str] = field(default_factory=dict)  # of --windows
    windows: str = ""
    windows_at: slice = field(default_factory=lambda: slice(0, 0))  # where they stand in `kept`
    said: list[str] = field(default_factory=list)

    def take(self, option: str, value: str, new: str) -> None:
        """Write one old option as it is now."""
        kind, _, key = new.partition(" ")
        if kind == "windows":
            self.parts[key] = value
            return
        if kind == "set":
            words = ["--set", f"{key}={value}"]
        elif kind == "TRACE":
            words = split_traces(value) if option == "--traces" else [value]
        else:
            words = [kind, value]
        (self.front if kind == "TRACE" else self.kept).extend(words)
        self.said.append(f"{' '.join(words)} for {option} {value}")


def modern(command: str, args: Sequence[str]) -> tuple[list[str], str]:
    """Rewrite a command's words as they are written now, and say what was changed; nothing if nothing was."""
    made = _Rewritten()
    known = {**OLD.get(command, {}), **({WINDOWS: WINDOWS, "-w": WINDOWS} if command in USUAL_WINDOWS else {})}
    for option, value, words in _options(args, known):
        if option is not None and known[option] != WINDOWS:
            made.take(option, value, known[option])
            continue
        if option is not None:
            made.windows, made.windows_at = value, slice(len(made.kept), len(made.kept) + len(words))
        made.kept.extend(words)
    _fold_windows(made, USUAL_WINDOWS.get(command, ""))
    if command in WROTE_SECOND:
        _name_out(made)
    told = f"write {', '.join(made.said)}; the old spelling ends with the next release" if made.said else ""
    return made.front + made.kept, told


def _options(args: Sequence[str], known: Iterable[str]) -> Iterable[tuple[str | None, str, Sequence[str]]]:
    """Find these options with their values; all other words are given as they are."""
    words = list(args)
    at = 0
    while at < len(words):
        option, value, used = _option(words[at:], known)
        yield option, value, words[at : at + used]
        at += used


def _option(words: Sequence[str], known: Iterable[str]) -> tuple[str | None, str, int]:
    first = words[0]
    if first == "--":
        return None, "", len(words)
    name, equals, value = first.partition("=")
    if name in known and equals:
        return name, value, 1
    if first in known and len(words) > 1:
        return first, words[1], 2
    if first[:2] in known and len(first) > 2 and not first.startswith("--"):
        return first[:2], first[2:], 1
    return None, "", 1


def _fold_windows(made: _Rewritten, usual: str) -> None:
    """Put --size, --every and --contended, which stood by themselves, into --windows."""
    counted = "x" in usual
    windows = made.windows or usual
    if counted and made.windows.isdigit():
        made.parts["count"], windows = made.windows, usual
    if not made.parts:
        return
    form, *rest = windows.split(":")
    if counted:
        count, _, size = form.partition("x")
        form = f"{made.parts.pop('count', count)}x{made.parts.pop('size', size)}"
    new = ":".join([form, *rest, *(f"{name}={value}" for name, value in made.parts.items())])
    made.kept[made.windows_at] = [WINDOWS, new]
    made.said.append(f"{WINDOWS} {new} for its parts one by one")


def _name_out(made: _Rewritten) -> None:
    """Put --out before the file to write, where it stood as a second argument and nothing else names it."""
    if any(word in {"--out", "-o"} or word.startswith("--out=") for word in made.kept):
        return  # a second history, say: refused, not left out
    takes_value = [word.startswith("-") and "=" not in word and word not in _FLAGS for word in made.kept]
    bare = [i for i, word in enumerate(made.kept) if not word.startswith("-") and not (i > 0 and takes_value[i - 1])]
    if len(bare) > 1:
        made.said.append(f"--out {made.kept[bare[1]]} for {made.kept[bare[1]]}")
        made.kept.insert(bare[1], "--out")
