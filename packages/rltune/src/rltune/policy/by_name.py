"""Policies by name; models that ship with the package or are in a file; and a user's own."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from rltune.errors import InputError, unknown
from rltune.estimate import read_history
from rltune.kernel.score import rules as scores
from rltune.model.model_file import SUFFIX, parse_model, read_model
from rltune.plugins import POLICIES, short_name
from rltune.policy.base import FIRST_COME, Policy, Rule, Score, Scored
from rltune.policy.learned import Learned
from rltune.policy.multifactor import Multifactor, paper
from rltune.policy.portfolio import METRICS, PORTFOLIO, Portfolio
from rltune.policy.qssf import Qssf
from rltune.policy.qssf_boost import QssfBoost

LEARNED = "learned"
DEFAULT_MODEL = "anywhere"
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


PRIOR = "saf"  # of the rules the nearest to the best on history parts: docs/adr/0033-a-portfolio-chosen-by-history.md
MEMBERS = (
    f"{LEARNED}:{DEFAULT_MODEL}",
    PRIOR,
    "f1",
    "srf",
    "sjf",
    "qssf",
    "unicep",
    "wfp3",
    "fcfs",
)  # ADR 0049: who comes first


def _default_model() -> Policy:
    """Read the first member."""
    return get_policy(MEMBERS[0])


_PORTFOLIOS = {
    metric: Portfolio(rule, MEMBERS, _default_model, metric)
    for metric in METRICS
    for rule in _RULES
    if isinstance(rule, Rule) and rule.name == PRIOR
}


def policy_table() -> tuple[BuiltIn | Portfolio, ...]:
    """List the policies that come with the package."""
    return (*_RULES, *_PORTFOLIOS.values())


def get_policy(spec: str | Policy | Score) -> Policy:
    """Take a policy by its name or a model's, as a file, as an object, or as a function that scores the queue.

    `learned` is the default of the models that ship with the package, `learned:philly` one by its name, `mine.rltune`
    one of your own, `mine.py:score` your own function, which an installed package may bring as an entry point, too.
    What is around a policy, such as `+guard:24h`, is read by `engine.parse_pipeline`.
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
    if spec.partition(":")[0] == PORTFOLIO:
        return _portfolio(spec)
    if (own := _own(spec)) is not None:
        return own
    if spec.startswith("qssf-boost:"):
        return QssfBoost(before=read_history(spec.removeprefix("qssf-boost:")), name=spec)
    if spec.partition(":")[0] == LEARNED:
        return _shipped(spec)
    if spec.endswith(SUFFIX):
        return Learned(read_model(spec), Path(spec).stem)
    names = (*(rule.name for rule in policy_table()), LEARNED, f"{LEARNED}:NAME", *POLICIES.names())
    raise unknown("policy", spec, names, more=f", a model's file (*{SUFFIX}), or your own as path.py:function")


def _portfolio(spec: str) -> Portfolio:
    """Return a portfolio for a metric: `portfolio` for the wait, `portfolio:slowdown`."""
    metric = spec.partition(":")[2] or METRICS[0]
    if metric not in METRICS:
        raise unknown("metric", metric, METRICS, "for a portfolio")
    return _PORTFOLIOS[metric]


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
        train = f"; `rltune train` makes one of your own, to be named as its file, model{SUFFIX}"
        raise unknown("model", name, known, "ships with this package", more=train)
    return Learned(parse_model((MODELS / f"{name}{SUFFIX}").read_text(encoding="utf-8"), name), spec)


def _own(spec: str) -> Policy | None:
    """Load a user's own policy: an object, or a function that scores the queue."""
    found = POLICIES.find(spec)
    if found is None or isinstance(found, Policy):
        return found
    if not callable(found):
        raise InputError(f"policy {spec!r}: {found!r} is no function that scores the queue")
    return Scored(name=short_name(spec), score=found)
