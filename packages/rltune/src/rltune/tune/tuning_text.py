"""A tuning in words, tables and settings: the same sentences on the terminal, on the page and in JSON."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from rltune.cluster import RANKING_ONLY
from rltune.evaluation.comparison_tables import interval, write_ratio
from rltune.metrics.formats import percent, plain, seconds
from rltune.metrics.recorded import FOR_RANKING_ONLY, NOTHING_RECORDED, UNBELIEVED, UNEXPLAINED, spread, times_apart
from rltune.text import counted
from rltune.trials.calm import CALM_S, calm_warning
from rltune.trials.measures import metric_of
from rltune.trials.shares import FEWEST, told_kind, told_small_groups
from rltune.tune.advice import Advice
from rltune.tune.pick import WORTH, preference
from rltune.tune.starving import DAY_H, GRACE_TIMES
from rltune.tune.tuning import FEWEST_JOBS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rltune.trials.intervals import Interval
    from rltune.trials.shares import Share
    from rltune.tune.tried_pipelines import Candidate
    from rltune.tune.tuning import Tuning

SHARE_COLUMNS = ("mean", "p90", "worst", "jobs")
SHOWN = 8  # finalists, and groups of a kind
REJECTED_SHARE = 0.01
NOTICEABLE = 0.05  # a change of a group's wait below this is not told
WIDTH = 100  # of a line of comment in settings
RIGHT_ALONE = (9, 9)  # "change" right on later jobs, of how many, where the last part alone showed it (docs/results)
RIGHT_TOGETHER = (3, 4)  # the same where only both parts together did
NEAR_IS_NO_PROOF = (
    "That the two are near says that the level is right here, not that a replay ranks policies as your site would."
)
REASONS = ("is a rule and no model", "changes less of what you have", "is plainer")  # as `preference` has them


def sentences(made: Tuning) -> list[str]:
    """Return the answer first, then why, who pays, and how sure it is."""
    if not made.finalists:
        return [f"Too little history to tell: {made.jobs:,} jobs; at least {FEWEST_JOBS:,} are needed."]
    why = (*_tested(made), *_not_first(made), *_decided(made), *_who(made))
    return [
        advice(made),
        *_past(made),
        *_doubted(made),
        *_unasked(made),
        *_set_aside(made),
        *_level(made),
        *why,
        *_sure(made),
    ]


def advice(made: Tuning) -> str:
    """Return the answer in a sentence."""
    metric = metric_of(made.metric)
    if made.answer is Advice.CHANGE:
        both = f"{interval(made.together, write_ratio)} of the {metric.title} of what you have now, {made.now.label}"
        return f"Change to {made.chosen.label} ({_shown(made)}): on both parts {both}.{_price(made)} {_borne_out(made)}"
    if made.answer is Advice.WATCH:
        return _watch(made)
    if made.answer is Advice.STAY and made.chosen.label != made.now.label:
        worse = "is not better on both parts together" if made.borne_out else "is not better on the last"
        worse = "is shown to be worse on the last" if made.testing.low > 1 else worse
        back = f"{made.chosen.label} was chosen on the middle part but {worse}"
        return f"Stay with what you have, {made.now.label}: {back}."
    if made.answer is Advice.STAY and made.set_aside:
        return f"Stay with what you have, {made.now.label}: by all that is better somebody would starve."
    if made.answer is Advice.STAY:
        return (
            f"Stay with what you have, {made.now.label}: of {made.tried} tried none has a {metric.title} 1 % shorter."
        )
    both = f"on both parts {interval(made.together, write_ratio)} of the {metric.title}"
    best = f"{made.chosen.label} looked better ({both})"
    until = f"{best}; until then stay with what you have, {made.now.label}."
    if _enough_jobs(made):
        return f"Too few jobs were run to tell: give more --minutes, such as {_more_minutes(made)}. {until}"
    return f"Too little history to tell: {_missing(made)}. {until}"


def _watch(made: Tuning) -> str:
    """Return what is better, and why it is not to act yet."""
    metric = metric_of(made.metric)
    both = f"{interval(made.together, write_ratio)} of the {metric.title} of what you have now, {made.now.label}"
    where = "on the middle part and on the last" if made.borne_out else "on both parts, though not on the last alone"
    better = f"Let {made.chosen.label} watch first, in shadow: better {where} (both together: {both}), but"
    price = _hunger(made.starving)
    if made.testing.estimate < 1 and any(one.high < 1 for one in (made.testing, made.together)):
        reasons = [*([f"on the last part {price}"] if price else []), *([] if made.believed else [UNBELIEVED])]
        such = f"{made.chosen.pipeline.policy.name}+guard:{DAY_H:g}h:{GRACE_TIMES}"
        guard = f"Put a guard around it that bounds this, such as {such}, or stay" if price else "Stay"
        return f"{better} {', and '.join(reasons)}. {guard} as you are."
    also = f", and on the last part {price}" if price else ""
    return f"{better} chance may explain it{also}; stay as you are until {_until(made)}."


def _doubted(made: Tuning) -> list[str]:
    """Return that replays are not to be believed, where the answer itself does not say so."""
    if made.believed or UNBELIEVED in advice(made):
        return []
    return [f"But {UNBELIEVED}: more jobs do not change that, so do not act on this."]


def _unasked(made: Tuning) -> list[str]:
    """Return that nobody asked whether replays are to be believed, if something is to be changed."""
    if not made.unasked:
        return []
    told = "Whether replays with this cluster's file can be believed was not asked"
    return [f"{told}: before you act, run `rltune calibrate` with --write, and tune with the file that it writes."]


def _hunger(starving: Sequence[Share]) -> str:
    """Return who starves, the worst by name; "" if nobody does."""
    if not starving:
        return ""
    worst, more = starving[0], len(starving) - 1
    others = f" ({more} more {'group' if more == 1 else 'groups'} alike)" if more else ""
    now, then = worst.p90_s
    return f"the slowest tenth of {worst.kind} {worst.name} would wait {seconds(then)}, now {seconds(now)}{others}"


def _set_aside(made: Tuning) -> list[str]:
    """Return what else would have been chosen, and who would have starved by it."""
    if not made.set_aside:
        return []
    first, more = made.set_aside[0], len(made.set_aside) - 1
    also = f", and {counted(more, 'other candidate')}" if more else ""
    told = f"Set aside, because somebody would starve by it: {first.candidate.label} (score {write_ratio(first.score)})"
    return [f"{told}; on the middle part {_hunger(first.starving)}{also}."]


def _missing(made: Tuning) -> str:
    """Return what a history lacks."""
    if not math.isfinite(made.testing.estimate):
        return f"nobody waits on its last part, {extent(made, 1)}, so that it can neither bear a gain out nor refute it"
    if not made.needed_jobs:
        return f"there are {made.jobs:,} jobs, in which too few queues formed to say how many would do"
    return f"about {_rounded(made.needed_jobs):,} jobs of history are needed, there are {made.jobs:,}"


def _enough_jobs(made: Tuning) -> bool:
    """Return whether the history may well be long enough, but the budget was too small to run it."""
    return 0 < made.needed_jobs <= made.jobs and sum(map(len, made.run_on)) < sum(map(len, made.parts[1:]))


def _more_minutes(made: Tuning) -> str:
    """Return a budget that runs as many jobs as are needed."""
    run = sum(map(len, made.run_on)) * made.jobs / sum(map(len, made.parts[1:]))
    return f"{math.ceil(made.minutes * max(made.needed_jobs / run, 2.0)):,}"


def _until(made: Tuning) -> str:
    """Return what it takes to be sure."""
    if _enough_jobs(made):
        return f"more of your history has told (give more --minutes, such as {_more_minutes(made)})"
    if not made.needed_jobs:
        return "a longer history has told"
    return f"tune has seen a history of about {_rounded(made.needed_jobs):,} jobs (this one has {made.jobs:,})"


def _shown(made: Tuning) -> str:
    """Return by what a change is shown."""
    if made.testing.high < 1:
        return "shown by the last part alone, which chose nothing"
    return "less sure: both parts together show it, the last alone does not but agrees in direction"


def _borne_out(made: Tuning) -> str:
    """Return how often an answer like this one was right on later jobs."""
    right, of = RIGHT_ALONE if made.testing.high < 1 else RIGHT_TOGETHER
    return f"On public logs {right} of {of} answers shown so were right on later jobs: few, so watch it once it runs."


def _rounded(jobs: int) -> int:
    """Return two digits: more would pretend to know."""
    return round(jobs, 2 - len(str(jobs)))


def _level(made: Tuning) -> list[str]:
    """Return how long jobs of the last part really waited, and what follows if the replay is far from it."""
    if made.recorded is None:
        return []
    found = made.recorded
    if not found.recorded_s.n:
        return [NOTHING_RECORDED]
    told = f"Recorded wait of the last part ({found.of_whom()}): {spread(found.recorded_s)}"
    said = f"{told}; the same jobs replayed under what you have now: {spread(found.simulated_s)}."
    if not found.far:
        more = FOR_RANKING_ONLY if made.usable_for == RANKING_ONLY else "" if found.calibrated else NEAR_IS_NO_PROOF
        return [f"{said} {more}".rstrip()]
    apart = times_apart(getattr(found.simulated_s, found.far), getattr(found.recorded_s, found.far))
    level = f"On this part the replay is not like your site: its {found.far} wait is {apart} recorded"
    ask = "Ask `rltune calibrate` whether its ranking can be believed"
    return [f"{said} {level}. Do not read sizes of gains from this. {UNEXPLAINED if found.calibrated else ask}."]


def _past(made: Tuning) -> list[str]:
    """Return what of the gain was made by queues after maintenance and outages of the past."""
    found = made.without_past
    if found is None:
        return []
    down = {"maintenance window": found.maintenance, "outage": found.outages}
    which = " and ".join(counted(number, name) for name, number in down.items() if number)
    told = f"These parts hold {which} of the cluster's file, and the queues after them are in the gain"
    ratios = [interval(one, write_ratio) for one in (found.testing, found.together)]
    said = f"{told}. Without them it is {ratios[0]} of now on the last part and {ratios[1]} on both"
    gone = "the gain is theirs, and what happened once is no plan"
    expect = f"expect the second ({_by_interval(found.together)})"
    return [f"{said}: {gone if found.together.estimate > 1 - WORTH else expect}."]


def _tested(made: Tuning) -> list[str]:
    metric = metric_of(made.metric)
    now, then = (metric.write(value) for value in made.values)
    if made.chosen.label == made.now.label:
        return [f"Last part, {extent(made, 1)}: {metric.title} {now}."]
    gain = f"{then} instead of {now}, {interval(made.testing, write_ratio)} of it"
    return [f"Last part, {extent(made, 1)} that chose nothing: {metric.title} {gain} ({_by_interval(made.testing)})."]


def _by_interval(found: Interval) -> str:
    """Return what the interval of a ratio says: it alone decides, and that of a difference would be wider."""
    if not math.isfinite(found.low):
        return "nothing shown: too little waited for an interval"
    if found.low <= 1 <= found.high:
        return "not shown beyond chance: the interval includes 1"
    return "shown: the interval is below 1" if found.high < 1 else "shown to be worse: the interval is above 1"


def extent(made: Tuning, part: int) -> str:
    """Return how many jobs of the middle part (0) or the last (1) were run."""
    run, whole = len(made.run_on[part]), len(made.parts[part + 1])
    return f"{run:,} jobs" if run == whole else f"the newest {run:,} of {whole:,} jobs"


def _not_first(made: Tuning) -> list[str]:
    """Return why others stand before what is recommended."""
    aside = {one.candidate.label for one in made.set_aside}
    standing = [candidate for candidate, _ in made.finalists if candidate.label not in aside]
    above = [candidate.label for candidate in standing].index(made.chosen.label)
    if not above or made.recommended.label == made.now.label:
        return []
    others = "One stands" if above == 1 else f"{above} stand"
    each = "it" if above == 1 else "against each of them it"
    reasons = {_reason(made, candidate) for candidate in standing[:above]}
    why = ", or ".join(one for one in REASONS if one in reasons)
    told = f"{others} before it by score on the middle part, as chance may explain"
    return [f"{told}; {each} {why}." if why else f"{told}."]


def _reason(made: Tuning, other: Candidate) -> str:
    """Return why the choice is preferred to a candidate that stands before it; "" if by nothing but the score."""
    ours, theirs = (preference(one, made.now) for one in (made.chosen, other))
    if ours >= theirs:
        return ""
    return next(why for why, mine, its in zip(REASONS, ours, theirs, strict=True) if mine != its)


def _decided(made: Tuning) -> list[str]:
    if not made.decided:
        return []
    each = ", ".join(f"{what} ({'+' if worse >= 0 else ''}{percent(worse)})" for what, worse in made.decided)
    return [f"What decided it, as the {metric_of(made.metric).title} if that part stayed as it is now: {each}."]


def _who(made: Tuning) -> list[str]:
    """Name who waits longer, and who shorter, by kind of group."""
    said: list[str] = []
    for kind in dict.fromkeys(share.kind for share in made.shares):
        shares = [s for s in made.shares if s.kind == kind]
        lose, win = _longer(shares), [s for s in shares if s.then_s < (1 - NOTICEABLE) * s.now_s - 1]
        if lose or win:
            by = f", counting changes of more than {100 * NOTICEABLE:g} %" if not said else ""
            told = f"{len(win)} of {len(shares)} groups wait less, {len(lose)} longer{_named(lose)}"
            said.append(f"By {kind}{by}: {told}.")
    return [*said, *_tail(made), *_too_small(made)]


def _longer(shares: Sequence[Share]) -> list[Share]:
    return [s for s in shares if s.then_s > (1 + NOTICEABLE) * s.now_s + 1]


def _price(made: Tuning) -> str:
    """Return how many users pay, or sizes where no users are known: a mean that is shorter hides them."""
    kind = next((kind for kind in ("user", "size") if any(s.kind == kind for s in made.shares)), "")
    shares = [s for s in made.shares if s.kind == kind]
    lose = _longer(shares)
    if not lose:
        return ""
    who = "users" if kind == "user" else "sizes"
    return f" {len(lose)} of {len(shares)} {who} {'waits' if len(lose) == 1 else 'wait'} longer on the last part."


def _too_small(made: Tuning) -> list[str]:
    """Return who is in none of these groups: each size by name, of others how many."""
    if not made.small:
        return []
    few = f"Too few jobs of the last part to be a group of their own (under {FEWEST})"
    return [f"{few}: {told_small_groups(made.small)}."]


def _tail(made: Tuning) -> list[str]:
    """Name those whose unluckiest jobs wait longer: a mean hides them."""
    said = []
    for what, part in (("The slowest tenth (p90)", "p90_s"), ("The worst wait", "worst_s")):
        pairs = [(s, *getattr(s, part)) for s in made.shares]
        longer = [pair for pair in pairs if pair[2] > (1 + NOTICEABLE) * pair[1] + CALM_S]
        worst = sorted(longer, key=lambda pair: pair[1] - pair[2])[:3]
        told = ", ".join(f"{s.kind} {s.name}: {seconds(now)} -> {seconds(then)}" for s, now, then in worst)
        if longer:
            said.append(f"{what} gets longer in {len(longer)} of {len(made.shares)} groups ({told}).")
    return said


def _named(lose: list[Share]) -> str:
    worst = sorted(lose, key=lambda s: (s.now_s - s.then_s) * s.jobs)[:3]
    told = ", ".join(f"{s.name}: {seconds(s.now_s)} -> {seconds(s.then_s)}" for s in worst)
    return f" ({told})" if worst else ""


def _sure(made: Tuning) -> list[str]:
    said = []
    test = len(made.run_on[1])
    if made.rejected > REJECTED_SHARE * test:
        said.append(f"{made.rejected:,} of {test:,} jobs of the last part never ran and are in no mean.")
    if not made.resumed:
        said.append("Every part begins after a simulated warm-up: no usable starts are recorded.")
    return [*said, *_calm(made), *made.notes]


def _calm(made: Tuning) -> list[str]:
    """Warn where nobody waits: what is best there need not be so when a queue forms."""
    waits = {candidate.label: value for candidate, value in made.finalists}.get(made.now.label, math.nan)
    return calm_warning(waits, "on the middle part") if made.metric == "wait" else []


def finalists_table(made: Tuning) -> Table:
    """Lay out the best of the middle part, what there is now among them."""
    metric = metric_of(made.metric)
    table = Table(title=Text(f"middle part, {extent(made, 0)}: {made.tried} tried"), title_justify="left")
    table.add_column("pipeline (estimates)", no_wrap=True)
    table.add_column("score", justify="right")
    table.add_column(metric.title, justify="right")
    table.add_column("role", justify="left")
    for rank, ((candidate, value), score) in enumerate(zip(made.finalists, made.scores, strict=True)):
        if rank < SHOWN or mark(made, candidate):
            table.add_row(Text(candidate.label), write_ratio(score), metric.write(value), mark(made, candidate))
    table.caption = Text(f"Score, of now: half the {metric.title}, half the same by blocks of time.")
    table.caption_justify = "left"
    return table


def shares_table(made: Tuning) -> Table:
    """Lay out who waits how long now and then."""
    table = Table(title=Text("last part: who wins and who loses (wait, now -> then)"), title_justify="left")
    for column in ("", *SHARE_COLUMNS):
        table.add_column(column, justify="right" if column else "left")
    for kind in dict.fromkeys(share.kind for share in made.shares):
        for s in [s for s in made.shares if s.kind == kind][:SHOWN]:
            table.add_row(Text(f"{kind} {s.name}"), *share_cells(s))
    if cut := _cut(made):
        table.caption = Text(f"Shown are the largest: {cut}. --report shows more, --json all.")
        table.caption_justify = "left"
    return table


def _cut(made: Tuning) -> str:
    """Return of which kinds not all groups are in the table."""
    kinds = [share.kind for share in made.shares]
    of = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
    return ", ".join(f"{SHOWN} of {told_kind(number, kind)}" for kind, number in of.items() if number > SHOWN)


def share_cells(share: Share) -> tuple[str, ...]:
    """Return the cells of one group, in the order of SHARE_COLUMNS."""
    pairs = ((share.now_s, share.then_s), share.p90_s, share.worst_s)
    return (*(f"{seconds(now)} -> {seconds(then)}" for now, then in pairs), f"{share.jobs:,}")


def mark(made: Tuning, candidate: Candidate) -> str:
    """Return what a candidate is in this tuning: what there is now, the chosen one, set aside, or nothing."""
    marked = [("now", made.now), ("chosen", made.chosen), *(("set aside", one.candidate) for one in made.set_aside)]
    marks = [word for word, one in marked if candidate.label == one.label]
    return ", ".join(marks)


def settings_file(made: Tuning, model: str = "", about: Sequence[str] = ()) -> str:
    """Return what is recommended as TOML that simulate, compare (--pipeline) and control (--config) take.

    `model` names the file of a policy that was taught here, `about` says when and from what this was made.
    """
    best = made.recommended
    told = [
        wrap(sentence, WIDTH, initial_indent="# ", subsequent_indent="#   ") for sentence in (*about, *sentences(made))
    ]
    lines = [*(line for lines in told for line in lines), "", "[pipeline]"]
    policy = best.pipeline.policy_name
    if model and made.recommended_model is not None:
        policy = model + policy.removeprefix(best.pipeline.policy.name)
    values = {
        "policy": policy,
        "backfill": best.pipeline.backfill,
        "placement": str(best.pipeline.placement),
        "estimator": best.estimator,
    }
    return "\n".join([*lines, *(f"{key} = {json.dumps(value)}" for key, value in values.items())]) + "\n"


def as_values(made: Tuning) -> dict[str, Any]:
    """Return everything as plain values; what cannot be told is None."""
    labels = {
        "now": made.now.label,
        "chosen": made.chosen.label,
        "answer": made.answer.value,
        "recommended": made.recommended.label,
    }
    kept = (
        "metric",
        "jobs",
        "tried",
        "needed_jobs",
        "rejected",
        "resumed",
        "believed",
        "usable_for",
        "minutes",
        "seed",
    )
    values: dict[str, Any] = plain(
        {
            "sentences": sentences(made),
            **labels,
            **{name: getattr(made, name) for name in kept},
            "run_on": {n: [s.first, s.end] for n, s in zip(("choose", "test"), made.run_on, strict=True)},
            "parts": {n: [s.first, s.end] for n, s in zip(("learn", "choose", "test"), made.parts, strict=True)},
            "choosing": asdict(made.choosing),
            "testing": asdict(made.testing),
            "together": asdict(made.together),
            "difference": asdict(made.apart),
            "now_value": made.values[0],
            "chosen_value": made.values[1],
            "decided": dict(made.decided),
            "finalists": [
                {"label": c.label, "score": score, "value": v}
                for (c, v), score in zip(made.finalists, made.scores, strict=True)
                if math.isfinite(v)
            ],
            "set_aside": [
                {"label": one.candidate.label, "score": one.score, "starving": [asdict(s) for s in one.starving]}
                for one in made.set_aside
            ],
            "groups": [asdict(share) for share in made.shares],
            "groups_too_small": [asdict(group) for group in made.small],
            "without_past": None if made.without_past is None else asdict(made.without_past),
            "recorded": None if made.recorded is None else asdict(made.recorded),
        }
    )
    return values
