"""Policies by name; models that ship with the package or are in a file; and a user's own function from a file."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import ModuleType

from rltune.errors import InputError
from rltune.estimate import read_history
from rltune.kernel.score import rules as scores
from rltune.model.learned_model import SUFFIX, parse_model, read_model
from rltune.policy.base import FIRST_COME, Policy, Rule, Score, Scored
from rltune.policy.learned import Learned
from rltune.policy.multifactor import Multifactor, paper
from rltune.policy.qssf import Qssf
from rltune.policy.qssf_boost import QssfBoost

LEARNED = "learned"
DEFAULT_MODEL = "mixed"
MODELS = resources.files("rltune") / "model" / "shipped"

BuiltIn = Rule | Qssf | QssfBoost | Multifactor

_RULES: tuple[BuiltIn, ...] = (
    FIRST_COME,
    Rule("sjf", scores.SJF, dynamic=False, about="shortest job first, by estimate"),
    Rule("srf", scores.SRF, dynamic=False, about="smallest request (GPUs) first"),
    Rule("saf", scores.SAF, dynamic=False, about="smallest area (GPUs x estimate) first"),
    Rule("f1", scores.F1, dynamic=False, about="log10(r) n + 870 log10(s)", source="Carastan-Santos, SC'17"),
    Rule(
        "wfp3", scores.WFP3, dynamic=True, about="-(wait / r)^3 n: long waits, short and large jobs", source="Tang 2009"
    ),
    Rule("unicep", scores.UNICEP, dynamic=True, about="-wait / (log2(n) r)", source="Tang 2009"),
    Qssf(),
    QssfBoost(),
    Multifactor(),
    paper(),
)


def policy_table() -> tuple[BuiltIn, ...]:
    """List the policies that come with the package."""
    return _RULES


def get_policy(spec: str | Policy | Score) -> Policy:
    """Take a policy by its name or a model's, as a file, as an object, or as a function that scores the queue.

    `learned` is the default of the models that ship with the package, `learned:philly` one by its name, `mine.rltune`
    one of your own, `mine.py:score` your own function. What is around a policy, such as `+guard:24h`, is read by
    `engine.parse_pipeline`.
    """
    if isinstance(spec, str):
        return _named(spec)
    if isinstance(spec, Policy):
        return spec
    if callable(spec):
        return Scored(name=getattr(spec, "__name__", type(spec).__name__), score=spec)
    raise InputError(f"{spec!r} is no policy: give a name, path.py:function, a function or an object such as Qssf()")


def _named(spec: str) -> Policy:
    for rule in _RULES:
        if rule.name == spec:
            return rule
    if ".py:" in spec:
        return _from_file(spec)
    if spec.startswith("qssf-boost:"):
        return QssfBoost(before=read_history(spec.removeprefix("qssf-boost:")), name=spec)
    if spec.partition(":")[0] == LEARNED:
        return _shipped(spec)
    if spec.endswith(SUFFIX):
        return Learned(read_model(spec), Path(spec).stem)
    names = ", ".join(rule.name for rule in _RULES)
    own = f"a model's file (*{SUFFIX}), or your own as path.py:function"
    raise InputError(f"no policy {spec!r}; there are: {names}, {LEARNED}, {LEARNED}:NAME, {own}")


def shipped_models() -> tuple[str, ...]:
    """List the models that ship with the package, by name."""
    if not MODELS.is_dir():
        return ()
    return tuple(sorted(file.name.removesuffix(SUFFIX) for file in MODELS.iterdir() if file.name.endswith(SUFFIX)))


def model_names() -> tuple[str, ...]:
    """List what names a model that ships with the package as a policy."""
    return (LEARNED, *(f"{LEARNED}:{name}" for name in shipped_models()))


def _shipped(spec: str) -> Learned:
    name = spec.partition(":")[2] or DEFAULT_MODEL
    known = shipped_models()
    if name not in known:
        there = f"there are: {', '.join(known)}" if known else "there is none"
        train = f"`rltune train` makes one of your own, to be named as its file, model{SUFFIX}"
        raise InputError(f"policy {spec!r}: no model {name!r} ships with this package; {there}; {train}")
    return Learned(parse_model((MODELS / f"{name}{SUFFIX}").read_text(encoding="utf-8"), name), spec)


@dataclass(frozen=True)
class FromFile(Scored):
    """A function of a user's file. Another process or machine reads the file again: functions of it are not sent."""

    spec: str = ""

    def __reduce__(self) -> tuple[Callable[[str], FromFile], tuple[str]]:
        return _from_file, (self.spec,)


def _from_file(spec: str) -> FromFile:
    path, _, function = spec.rpartition(":")
    file = Path(path)
    if not file.is_file():
        raise InputError(f"policy {spec!r}: there is no file {path}")
    score = getattr(_load(spec, file), function, None)
    if not callable(score):
        raise InputError(f"policy {spec!r}: {path} has no function {function!r}")
    return FromFile(name=f"{file.stem}:{function}", score=score, spec=spec)


def _load(spec: str, file: Path) -> ModuleType:
    name = f"rltune_own_policy_{file.stem}"
    module_spec = importlib.util.spec_from_file_location(name, file)
    assert module_spec is not None
    assert module_spec.loader is not None
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[name] = module  # a dataclass in the file looks itself up there
    try:
        module_spec.loader.exec_module(module)
    except Exception as error:  # whatever it raises, the user wrote it
        raise InputError(f"policy {spec!r}: {file} cannot be loaded: {type(error).__name__}: {error}") from error
    return module
