"""What a controller decides by, read when it starts and when it is told to reload: files are looked at here alone."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from rltune.engine.guard import get_guard
from rltune.engine.parse_pipeline import parse_pipeline, split_around
from rltune.engine.turns import Turns
from rltune.errors import InputError
from rltune.estimate import get_estimator
from rltune.estimate.given_files import ByJob
from rltune.kernel.score.rules import INSPECTED
from rltune.live.control_settings import ControlSettings, PreemptSettings
from rltune.live.decide.pinned import Pinned
from rltune.model.model_file import SUFFIX, parse_model
from rltune.policy.base import Networked, Policy
from rltune.policy.by_name import DEFAULT_MODEL, LEARNED, MODELS, get_policy
from rltune.policy.learned import Learned
from rltune.policy.portfolio import Portfolio

_FUNCTION = ".py:"
_TRACE = "qssf-boost:"


@dataclass(frozen=True)
class ReadPolicy:
    """A policy, and the file that it was read from."""

    policy: Policy
    sha256: str = ""
    text: str = ""


def pin_pipeline(settings: ControlSettings) -> Pinned:
    """Read policy and estimator; the policy is guarded if it has no guard of its own."""
    guess = get_estimator(settings.pipeline.estimator)
    return replace(pin_policy(settings), estimator=guess.leniently() if isinstance(guess, ByJob) else guess)


def pin_policy(settings: ControlSettings, text: str | None = None) -> Pinned:
    """Read the policy alone, from the text that its file held once if that is given."""
    spec, core = settings.pipeline.policy, settings.advanced.pipeline
    name, around = split_around(spec)
    if "remaining" in around:
        raise InputError(f"policy {spec!r}: remainders from history are for simulations; leave out +remaining")
    read = _read(name, text)
    if read.policy.code == INSPECTED:
        raise InputError(f"policy {spec!r} judges choices one by one as they are made, and gives a queue no order")
    if "preempt" in around:
        raise InputError(f"policy {spec!r}: who gives way on a running cluster stands under [preempt] in control.toml")
    if settings.preempt.on and isinstance(read.policy, Networked):
        raise InputError(f"policy {spec!r}: learned policies do not take turns on a running cluster yet; choose a rule")
    pipeline = parse_pipeline(
        read.policy,
        settings.pipeline.backfill,
        settings.pipeline.placement,
        guard=around.get("guard") or get_guard(settings.safety.guard),
        search=around.get("search"),
        preempt=_turns(settings.preempt),
        head=core.head,
        view=core.view,
        seed=core.seed,
    )
    return Pinned(pipeline, sha256=read.sha256, text=read.text)


def _turns(preempt: PreemptSettings) -> Turns:
    """Return the order by which jobs give way; how often each may is counted where the jobs are looked at."""
    return Turns(preempt.order, preempt.min_run, late_s=preempt.late) if preempt.on else Turns()


def policy_file(spec: str) -> Path | None:
    """Return the file that a policy is read from; None if it is built in or comes with an installed package."""
    name, _ = split_around(spec)
    if name.partition(":")[0] == LEARNED:
        return Path(str(MODELS / f"{name.partition(':')[2] or DEFAULT_MODEL}{SUFFIX}"))
    if name.endswith(SUFFIX):
        return Path(name)
    if _FUNCTION in name:
        return Path(name.rpartition(":")[0])
    return Path(name.removeprefix(_TRACE)) if name.startswith(_TRACE) else None


def taking(portfolio: Portfolio, name: str) -> ReadPolicy:
    """Return the policy that a portfolio has taken: its name, and behind it what its file holds, are its text.

    `name` may be such a text: then the file is that of the journal, not the one that ships by now.
    """
    name, _, held = name.partition("\n")
    file = policy_file(name)
    read = ReadPolicy(get_policy(name)) if file is None else _model(name, file, held or None)
    text = f"{name}\n{read.text}" if read.text else name
    return ReadPolicy(portfolio.taking(read.policy), _hash(text), text)


def file_hash(path: Path) -> str:
    """Return the hash of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(name: str, text: str | None) -> ReadPolicy:
    file = policy_file(name)
    if text and isinstance(policy := get_policy(name) if file is None else None, Portfolio):
        return taking(policy, text)
    if file is None or (text is None and not file.is_file()):
        return ReadPolicy(get_policy(name))  # built in, or it says what is missing
    if name.startswith(_TRACE):
        return ReadPolicy(get_policy(name), file_hash(file))
    return _model(name, file, text) if file.suffix == SUFFIX else _function(name, file, text)


def _model(name: str, file: Path, text: str | None) -> ReadPolicy:
    text = _text(file) if text is None else text
    model = parse_model(text, str(file))
    return ReadPolicy(Learned(model, name if name.startswith(LEARNED) else file.stem), model.sha256, text)


def _function(name: str, file: Path, text: str | None) -> ReadPolicy:
    """Load a user's function; what is kept of its file is what was loaded, also if somebody writes it just then."""
    if text is not None:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / file.name
            copy.write_bytes(text.encode())
            policy = get_policy(f"{copy}:{name.rpartition(':')[2]}")
        return ReadPolicy(policy, _hash(text), text)
    text = _text(file)
    policy = get_policy(name)
    if _text(file) != text:
        raise InputError(f"policy {name!r}: {file} is being written; try again")
    return ReadPolicy(policy, _hash(text), text)


def _text(file: Path) -> str:
    """Return what a file holds, byte for byte: line ends stay as they are."""
    try:
        return file.read_bytes().decode()
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{file}: is not text") from None


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
