"""Which pipeline to run: chosen on the middle part, tested on the last, the same however it is computed."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from rltune import Cluster, Jobs, simulate
from rltune.cluster import Maintenance, Scheduler
from rltune.engine.parse_pipeline import parse_pipeline, read_pipeline
from rltune.errors import InputError
from rltune.estimate.estimator_names import CANDIDATES
from rltune.live.control_settings_file import load_settings
from rltune.policy.learned import Learned
from rltune.text import text_of
from rltune.trials.intervals import Interval
from rltune.trials.leak import Exam, leaks
from rltune.trials.shares import SmallGroup
from rltune.tune import tune
from rltune.tune.advice import Advice, decide
from rltune.tune.choose_and_report import PROBED
from rltune.tune.halving import Scoreboard, halve
from rltune.tune.kept_runs import KeptRuns
from rltune.tune.past_events import without_past
from rltune.tune.pick import pick
from rltune.tune.plan import SEARCH_SHARE, Plan
from rltune.tune.stretches import BlockSums, HistoryStretch, StretchRunner
from rltune.tune.tried_pipelines import Candidate, opening, usual_now, variations
from rltune.tune.tuning_page import render_tuning
from rltune.tune.tuning_text import (
    RIGHT_ALONE,
    RIGHT_TOGETHER,
    finalists_table,
    sentences,
    settings_file,
    shares_table,
)
from rltune.tune.work import RunWork

CLUSTER = Cluster.uniform(2, 8)


def history(n=3000, load=0.85, seed=0):
    """Jobs of which some are large and long; recorded starts are those of FCFS without backfilling."""
    rng = np.random.default_rng(seed)
    gpus = rng.choice([1, 2, 4, 8], n, p=[0.6, 0.2, 0.1, 0.1])
    duration = rng.lognormal(5.5, 1.2, n)
    submit = np.sort(rng.uniform(0, (gpus * duration).sum() / (16 * load), n))
    user = [f"u{i}" for i in rng.integers(0, 6, n)]
    bare = Jobs.from_arrays(submit, duration, gpus, limit_s=duration * rng.uniform(1, 4, n), user=user)
    return bare.with_columns(recorded_start_s=simulate(bare, CLUSTER, "fcfs").start_s)


@pytest.fixture(scope="module")
def jobs():
    return history()


@pytest.fixture(scope="module")
def made(jobs, tmp_path_factory):
    kept = tmp_path_factory.mktemp("tune") / "runs"
    return tune(jobs, CLUSTER, "fcfs", models=[], minutes=2, kept=kept), kept


def test_a_poor_pipeline_is_to_be_changed_and_the_last_part_bears_it_out(made):
    tuning, _ = made
    assert tuning.answer is Advice.CHANGE
    assert tuning.borne_out
    assert tuning.resumed
    assert tuning.values[1] < 0.7 * tuning.values[0]
    assert sentences(tuning)[0].startswith(f"Change to {tuning.chosen.label}")
    assert {name for name, _ in tuning.decided} & {"policy", "backfill"}
    assert {share.kind for share in tuning.shares} == {"size", "user"}


def test_the_last_part_is_reported_as_it_is(made, jobs):
    """Mean waits of the chosen and of what there is now are those of simulations of the last part alone."""
    tuning, _ = made
    first = tuning.parts[2].first
    got = simulate(jobs, CLUSTER, "fcfs").wait_s[first:].mean()
    assert tuning.values[0] == pytest.approx(got, rel=0.01)  # on two nodes running jobs may lie elsewhere


def test_what_is_best_already_stays(made, jobs):
    tuning, _ = made
    best = tuning.chosen
    again = tune(jobs, CLUSTER, best.pipeline.label, now_estimator=best.estimator, models=[], minutes=2)
    assert again.answer is Advice.STAY
    assert "Stay with what you have" in sentences(again)[0]
    assert not again.decided
    assert not [told for told in sentences(again) if told.startswith(("What decided it", "By "))]  # of no change


def test_where_nothing_changes_no_change_is_explained(made):
    """Neither on the terminal nor on the page: not what decided it, and not who would gain."""
    tuning, _ = made
    assert any(told.startswith("What decided it") for told in sentences(tuning))
    assert "Last part: mean wait by size" in render_tuning(tuning)
    again = replace(tuning, answer=Advice.TOO_LITTLE, decided=(), shares=(), needed_jobs=9_000)
    assert not [told for told in sentences(again) if told.startswith(("What decided it", "By "))]
    assert "mean wait by size" not in render_tuning(again)
    assert "until then stay with what you have" in sentences(again)[0]


def test_whether_replays_can_be_believed_is_said_whatever_the_answer(made):
    """Second, where the answer itself does not say it: chance as the reason must not hide the verdict."""
    tuning, _ = made
    assert "was not asked" in " ".join(sentences(tuning)[:3])
    asked = replace(tuning, recorded=replace(tuning.recorded, calibrated=True))
    assert "was not asked" not in " ".join(sentences(asked))
    for answer in Advice:
        doubted = replace(asked, answer=answer, believed=False)
        assert "usable neither for ranking nor for sizes" in " ".join(sentences(doubted)[:2])
        assert "usable neither" in settings_file(doubted)


def test_a_cluster_whose_replays_are_for_ranking_only_gives_no_sizes(made):
    """Though the level is near on the last part: the verdict is of the whole history."""
    tuning, _ = made
    asked = replace(tuning, recorded=replace(tuning.recorded, calibrated=True))
    assert "Do not read sizes" not in " ".join(sentences(asked))
    assert "usable for ranking only" in " ".join(sentences(replace(asked, usable_for="ranking"))[:3])
    assert "Do not read sizes" not in " ".join(sentences(replace(asked, usable_for="sizes of gains")))


def test_a_calm_history_says_that_it_cannot_speak_of_busy_times(made):
    tuning, _ = made
    assert not [told for told in sentences(tuning) if told.startswith("Hardly anybody")]
    calm = replace(tuning, finalists=tuple((candidate, value / 1e4) for candidate, value in tuning.finalists))
    assert [told for told in sentences(calm) if told.startswith("Hardly anybody waits on the middle part")]


def test_finished_runs_are_not_run_again(made, jobs):
    """Nor does a line that was cut off do harm."""
    tuning, kept = made
    with kept.open("a") as file:
        file.write('{"run": "half')
    told = []
    again = tune(
        jobs, CLUSTER, "fcfs", models=[], minutes=2, kept=kept, progress=lambda *progress: told.append(progress)
    )
    assert not any(done for done, _, _ in told)  # what is looked at before is told, no run is
    assert again.to_dict() == tuning.to_dict()


def test_runs_of_another_program_are_not_found(jobs, tmp_path):
    """Run times may be predicted otherwise by the next release, and no kernel shows it."""
    candidate, stretch = Candidate(parse_pipeline("saf", "easy"), "predicted"), HistoryStretch(0, 10)
    runner, kept = StretchRunner(jobs, CLUSTER, "wait", 0), tmp_path / "runs"
    folder = tmp_path / "program"
    for source in ("WIDTH = 20", "WIDTH = 21"):
        (folder / "estimate").mkdir(parents=True, exist_ok=True)
        (folder / "estimate" / "predicted.py").write_text(source)
        with patch("rltune.tune.kept_runs.PROGRAM", folder):
            first = KeptRuns(kept, runner)
            assert first.find((candidate, stretch)) is None
            first.add((candidate, stretch), BlockSums((1.0,), (10.0,), 0, 2.0))
            assert KeptRuns(kept, runner).find((candidate, stretch)) is not None


def test_a_short_history_is_told_how_much_is_missing(jobs):
    short = tune(jobs.window(0, 500), CLUSTER, models=[])
    assert short.answer is Advice.TOO_LITTLE
    assert sentences(short) == ["Too little history to tell: 500 jobs; at least 2,000 are needed."]
    json.dumps(short.to_dict(), allow_nan=False)
    assert "Too little" in render_tuning(short)


def test_a_gain_that_chance_may_explain_asks_for_more(jobs):
    """Waits of one queue in 2,000 jobs: two rules that are near each other cannot be told apart."""
    calm = tune(history(2000, load=0.5, seed=3), CLUSTER, "saf + easy", now_estimator="history", models=[], minutes=1)
    assert calm.answer is not Advice.CHANGE
    if calm.answer in {Advice.TOO_LITTLE, Advice.WATCH}:
        assert calm.needed_jobs > calm.jobs


def test_the_settings_are_those_that_a_controller_takes(made, tmp_path):
    tuning, _ = made
    path = tmp_path / "ours.toml"
    path.write_text(settings_file(tuning))
    read = load_settings(path).pipeline
    assert (read.policy, read.backfill) == (tuning.chosen.pipeline.policy_name, tuning.chosen.pipeline.backfill)
    assert read.estimator == tuning.chosen.estimator == tomllib.loads(path.read_text())["pipeline"]["estimator"]


def test_the_page_says_the_same(made):
    tuning, _ = made
    page = render_tuning(tuning, "mine")
    assert f"Change to {tuning.chosen.label.split(' ')[0]}" in page
    assert "[pipeline]" in page


def test_what_cannot_be_tuned_is_refused(jobs):
    with pytest.raises(InputError, match="cannot be tuned for"):
        tune(jobs, CLUSTER, metric="makespan")
    with pytest.raises(InputError, match="minutes"):
        tune(jobs, CLUSTER, minutes=0)


@pytest.mark.parametrize("minutes", [0.5, 5.0, 60.0])
@pytest.mark.parametrize("queue", [1.0, 300.0, 10_000.0])
def test_rounds_cost_no_more_than_the_budget_whatever_the_queue_turns_out_to_be(jobs, minutes, queue):
    """Nor does the length of the history matter. What there is now is never lost."""
    now = usual_now(jobs, CLUSTER)
    first = opening(now, ["learned"], CANDIDATES)
    really = RunWork(queue, 100)
    for n in (1_500, 10_000, 1_000_000, 10_000_000):
        thought = really if n <= PROBED else RunWork(queue=30.0, nodes=100)  # a short part is probed as a whole
        plan = Plan.of(HistoryStretch(0, n), first, minutes, thought)
        spent = [0.0]

        def run(tasks, spent=spent):
            spent[0] += sum(really.seconds([c]) * len(s) for c, s in tasks)
            return [BlockSums((float(len(c.label)),), (1.0,), 0, queue) for c, _ in tasks]

        left = halve(plan, Scoreboard(now), run)
        assert spent[0] <= SEARCH_SHARE * 60.0 * minutes * 1.3 + 10 * really.seconds(first)  # a probe, and single jobs
        assert now.label in {c.label for c in left}
        assert left[0].label == min((c.label for c in plan.first), key=len)
        assert {c.label for c in (*plan.first, *plan.joining, *plan.left_out)} == {c.label for c in first}


def test_what_is_dear_joins_later_if_the_budget_is_short_and_is_left_out_if_it_is_shorter(jobs):
    """Estimates that are predicted are much work: the rules that did well without them are tried with them."""
    first = opening(usual_now(jobs, CLUSTER), [], CANDIDATES)
    plans = [Plan.of(HistoryStretch(0, 100_000), first, minutes, RunWork()) for minutes in (1_000.0, 20.0, 0.5)]
    assert [bool(plan.joining) for plan in plans] == [False, True, False]
    assert [bool(plan.left_out) for plan in plans] == [False, False, True]
    best = [c for c in plans[1].first if c.pipeline.label == "saf + easy"]
    assert {c.label for c in plans[1].joined(best)} == {f"saf + easy ({e})" for e in CANDIDATES if "predicted" in e}


def test_changes_of_the_best_stop_where_the_budget_ends(jobs):
    """The least work first; what is learnt once is paid once."""
    first = opening(usual_now(jobs, CLUSTER), [], CANDIDATES)
    plan = Plan.of(HistoryStretch(0, 3_000), first, 10.0, RunWork())
    changed = variations(first[:3], CANDIDATES, solver=False)
    assert len(plan.affordable(changed)) == len(changed)
    short = Plan.of(HistoryStretch(0, 3_000), first, 10.0, RunWork())
    short.spent_s = 60.0 * SEARCH_SHARE * 10.0 - 1.0
    kept = short.affordable(changed)
    assert 0 < len(kept) < len(changed)
    assert not any("predicted" in c.estimator for c in kept)


def test_a_run_depends_on_no_job_that_is_older_than_is_learnt_from(monkeypatch):
    """But those that ran or waited when it begins are there, however old."""
    jobs = history(1200)
    old = np.append(jobs.submit_s[:1], jobs.submit_s[1:])
    runs = jobs.duration_s.copy()
    runs[3] = 10 * jobs.submit_s[-1]  # a job that never ends
    jobs = jobs.with_columns(submit_s=old, duration_s=runs)
    stretch, candidate = HistoryStretch(900, 1200), Candidate(parse_pipeline("saf", "easy"), "history")
    whole = StretchRunner(jobs, CLUSTER, "wait", 0)
    all_of_it = whole.schedule(candidate, stretch)
    monkeypatch.setattr("rltune.tune.stretches.LOOK_BACK", 100)
    short = StretchRunner(jobs, CLUSTER, "wait", 0)
    schedule = short.schedule(candidate, stretch)
    assert len(short.ground(stretch).jobs) < 500
    assert np.array_equal(schedule.jobs.id, all_of_it.jobs.id)  # the same jobs ran and waited
    bare = replace(candidate, estimator="user")
    assert short((bare, stretch)) == whole((bare, stretch))  # limits are asked, not learnt


def test_a_budget_that_runs_little_of_a_history_is_said_and_asks_for_minutes(jobs):
    """A long history is not too short because little of it was run."""
    tuning = tune(jobs, CLUSTER, "fcfs", models=[], minutes=0.01)
    run, parts = tuning.run_on, tuning.parts
    assert len(run[0]) < len(parts[1])
    told = " ".join(sentences(tuning))
    assert f"{len(run[0]):,} of {len(parts[1]):,} jobs" in text_of(finalists_table(tuning))
    assert "The budget has no room for estimates by" in told
    doubtful = replace(tuning, answer=Advice.TOO_LITTLE, needed_jobs=tuning.jobs // 2)
    assert "give more --minutes" in sentences(doubtful)[0]
    assert "Too little history" in sentences(replace(doubtful, needed_jobs=10 * tuning.jobs))[0]


def test_limits_are_known_though_the_first_jobs_have_none(jobs):
    few = np.where(np.arange(len(jobs)) % 4 > 0, jobs.limit_s, np.nan)  # the first of every stretch among them
    runner = StretchRunner(jobs.with_columns(limit_s=few), CLUSTER, "wait", 0)
    bare = StretchRunner(jobs.with_columns(limit_s=np.full(len(jobs), np.nan)), CLUSTER, "wait", 0)
    for stretch in (HistoryStretch(0, 600), HistoryStretch(600, 2000)):
        runner.require_estimates("user", stretch)
        with pytest.raises(InputError, match="no job of this trace has one"):
            bare.require_estimates("user", stretch)


def test_no_answer_asks_for_no_jobs(made):
    """Where an interval cannot be told, neither can how many jobs would be enough."""
    tuning, _ = made
    for answer in (Advice.TOO_LITTLE, Advice.WATCH):
        assert "about 0 jobs" not in sentences(replace(tuning, answer=answer, needed_jobs=0))[0]
    calm = replace(tuning, answer=Advice.TOO_LITTLE, needed_jobs=0, testing=Interval(np.nan, np.nan, np.nan))
    assert "nobody waits on its last part" in sentences(calm)[0]


def test_one_part_is_changed_at_a_time():
    base = Candidate(parse_pipeline("saf", "easy"), "history")
    for other in variations([base], solver=True):
        assert len(other.changes_from(base)) <= 1
    assert len(variations([base], solver=True)) == 8


@pytest.mark.parametrize("policy", ["saf", "learned"])
def test_turns_are_tried_around_rules_and_networks(policy):
    """Who may not be displaced keeps the order of either."""
    base = Candidate(parse_pipeline(policy, "fit-first"), "history")
    made = {c.pipeline.turns.order for c in variations([base], solver=False, turns=True) if c.pipeline.turns}
    assert made == {"las", "gittins"}


def outcome(*means):
    """Make what a candidate made of a stretch: mean waits by blocks of a hundred jobs."""
    return BlockSums(tuple(100.0 * m for m in means), (100.0,) * len(means), 0)


def scored(waits, now="fcfs + easy"):
    """Put candidates, named as tables do, with mean waits by block on a scoreboard."""
    stretch, made = HistoryStretch(0, 100), {}
    for name, means in waits.items():
        made[name] = Candidate(read_pipeline(name), "history"), outcome(*means)
    board = Scoreboard(made[now][0], {(c.label, stretch): found for c, found in made.values()})
    return pick([c for c, _ in made.values()], board, stretch).pipeline.label


def test_of_those_that_chance_may_part_the_least_change_is_taken():
    """Without backfilling and spread is best by 3 %, now here, now there: the order alone is changed."""
    waits = {
        "fcfs + easy": [90, 80, 100, 90, 85, 95, 90],
        "saf + easy": [20, 15, 25, 18, 22, 19, 21],
        "saf, spread": [19, 16, 23, 19, 20, 20, 19],
    }
    assert scored(waits) == "saf + easy"
    waits["saf, spread"] = [10, 8, 12, 9, 11, 10, 10]
    assert scored(waits) == "saf, spread"


def test_a_steady_lag_does_not_make_way_for_one_that_is_worse_and_changes_more():
    """Backfilling as it is lags by 3 % in every block; that of conservative by 5 %, now here, now there."""
    waits = {
        "fcfs + easy": [90, 80, 100, 90, 85, 95, 90],
        "saf, spread": [20, 15, 25, 18, 22, 19, 21],
        "saf + easy": [1.03 * wait for wait in (20, 15, 25, 18, 22, 19, 21)],
        "saf + conservative": [24, 14, 27, 16, 26, 17, 23],
    }
    assert scored(waits) == "saf + easy"


def test_why_others_stand_before_the_choice_is_what_was_compared(made):
    tuning, _ = made
    now = Candidate(read_pipeline("fcfs + easy"), "history")

    def told(chosen, *before):
        first, *rest = [Candidate(read_pipeline(name), "history") for name in (chosen, *before)]
        order = [*rest, first]
        ranked = {"finalists": tuple((c, 1.0) for c in order), "scores": (0.5,) * len(order)}
        found = replace(tuning, now=now, chosen=first, answer=Advice.CHANGE, **ranked)
        return [one for one in sentences(found) if "before it" in one]

    assert told("saf + easy") == []
    assert told("saf + easy", "saf, spread")[0].endswith("; it changes less of what you have.")
    both = told("saf + easy", "saf, spread", "learned + easy")[0]
    assert both.startswith("2 stand before it")
    assert both.endswith("; against each of them it is a rule and no model, or changes less of what you have.")
    assert told("saf + easy", "sjf + easy")[0].endswith("as chance may explain.")  # nothing is said that is not so


def test_the_table_stands_in_the_order_of_its_first_number(made):
    tuning, _ = made
    assert list(tuning.scores) == sorted(tuning.scores)
    assert dict(zip((c.label for c, _ in tuning.finalists), tuning.scores, strict=True))[tuning.now.label] == 1
    best, score = tuning.finalists[0][0].label, f"{tuning.scores[0]:.3f}"
    assert any(best in line and score in line for line in text_of(finalists_table(tuning)).splitlines())


def test_how_sure_a_change_is_stands_in_the_first_sentence(made):
    tuning, _ = made
    alone = sentences(replace(tuning, testing=interval_of(0.2, 0.9)))[0]
    assert f"Change to {tuning.chosen.label} (shown by the last part alone" in alone
    together = sentences(replace(tuning, testing=interval_of(0.2, 1.5)))[0]
    assert f"Change to {tuning.chosen.label} (less sure: both parts together show it" in together


def test_who_pays_stands_in_the_first_sentence(made):
    """A mean that is shorter hides whose wait is longer: users are counted, or sizes where nobody is named."""
    tuning, _ = made
    changed = replace(tuning, testing=interval_of(0.2, 0.9))

    def first(*waits: tuple[str, float, float]) -> str:
        one = changed.shares[0]
        shares = [replace(one, kind=kind, now_s=now, then_s=then) for kind, now, then in waits]
        return sentences(replace(changed, shares=tuple(shares)))[0]

    users = (("size", 100.0, 200.0), ("user", 100.0, 50.0), ("user", 100.0, 104.0), ("user", 100.0, 200.0))
    assert " 1 of 3 users waits longer on the last part." in first(*users)
    assert " 1 of 1 sizes waits longer on the last part." in first(*users[:1])
    assert "longer" not in first(*users[1:3])


def test_the_share_that_was_borne_out_is_that_of_the_results():
    """Counted in the tables of the present rule: whether the last part's interval ends below 1, and later jobs too."""
    page = Path(__file__).parents[4] / "docs/results/tune.md"
    section = page.read_text().split("## How often it is right: the present rule")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")] for line in section.splitlines() if "| change |" in line]
    alone = [float(row[7]) < 1 for row in rows if _ends_below_1(row[5])]
    together = [float(row[7]) < 1 for row in rows if not _ends_below_1(row[5])]
    assert (sum(alone), len(alone)) == RIGHT_ALONE
    assert (sum(together), len(together)) == RIGHT_TOGETHER


def _ends_below_1(told):
    end = told.strip("]").split()[-1].strip("[")
    return end != "unknown" and float(end) < 1


def test_one_long_queue_does_not_choose():
    """A rule that is worse in all blocks but the one in which nearly all waiting is does not win."""
    waits = {
        "fcfs + easy": [10, 12, 11, 900, 10, 12, 9],
        "saf + easy": [5, 6, 5, 600, 5, 6, 5],
        "wfp3": [30, 36, 33, 520, 30, 36, 27],
    }
    assert scored(waits) == "saf + easy"


def test_a_model_is_proposed_only_where_it_won_by_more_than_chance():
    waits = {
        "fcfs + easy": [90, 80, 100, 90, 85, 95, 90],
        "saf + easy": [20, 15, 25, 18, 22, 19, 21],
        "learned + easy": [19, 16, 23, 19, 20, 20, 19],
    }
    assert scored(waits) == "saf + easy"
    waits["learned + easy"] = [10, 8, 12, 9, 11, 10, 10]
    assert scored(waits) == "learned + easy"
    assert scored({**waits, "learned + easy": [90] * 7, "saf + easy": [90] * 7}) == "fcfs + easy"


def test_a_policy_is_taught_by_the_first_part_alone_and_competes(jobs, tmp_path):
    """Its lessons end before the middle part, it is among those compared, and a second call learns nothing anew."""
    how = {"models": [], "minutes": 0.2, "learn": ["evolve"], "kept": tmp_path / "runs"}
    tuning = tune(jobs, CLUSTER, "fcfs", **how)
    assert set(tuning.learnt) == {"evolved"}
    assert any(c.pipeline.policy.name == "evolved" for c, _ in tuning.finalists)
    model = tuning.learnt["evolved"]
    ordered, (learn, _, _) = jobs.sorted(), tuning.parts
    taught = ordered.window(0, learn.end)
    after = ordered.window(learn.end, len(jobs) - learn.end)
    assert leaks([Learned(model)], [Exam(taught)])
    assert not leaks([Learned(model)], [Exam(after)])
    told = []
    again = tune(jobs, CLUSTER, "fcfs", **how, progress=lambda *news: told.append(news))
    assert again.to_dict() == tuning.to_dict()
    assert again.learnt["evolved"].sha256 == model.sha256
    assert not [news for news in told if "evolving" in news[2]]


def test_a_calm_history_teaches_nothing_and_says_so():
    calm = history(2000, load=0.01)
    tuning = tune(calm, CLUSTER, models=[], minutes=1, learn=["evolve"])
    assert any(note.startswith("Nothing could be evolved") for note in tuning.notes)
    with pytest.raises(InputError, match="no way to learn 'dream'"):
        tune(calm, CLUSTER, learn=["dream"])


def test_the_answer_is_told_beside_what_the_history_records(made):
    """A replay that is far from it is called so in the third sentence, on the page and in JSON too."""
    tuning, _ = made
    assert sentences(tuning)[2].startswith(
        "Recorded wait of the last part (750 jobs, from when each could start): mean "
    )
    assert "not like your site" not in sentences(tuning)[2]
    assert sentences(tuning)[2].endswith("not that a replay ranks policies as your site would.")
    slow = replace(tuning.recorded.recorded_s, mean=10 * tuning.recorded.simulated_s.mean)
    far = replace(tuning, recorded=replace(tuning.recorded, recorded_s=slow))
    assert "its mean wait is 10.0 times shorter than recorded" in sentences(far)[2]
    assert "10.0 times shorter" in render_tuning(far)
    assert far.to_dict()["recorded"]["recorded_s"]["mean"] == pytest.approx(slow.mean)


def interval_of(low, high):
    return Interval((low * high) ** 0.5, low, high)


@pytest.mark.parametrize(
    ("testing", "together", "answer"),
    [
        ((0.6, 1.2), (0.5, 0.9), Advice.CHANGE),
        ((0.6, 0.9), (0.6, 1.1), Advice.CHANGE),
        ((0.8, 1.1), (0.6, 1.3), Advice.WATCH),
        ((0.9, 1.6), (0.5, 0.9), Advice.WATCH),  # one queue against it takes the certainty away
        ((0.6, 1.4), (0.5, 1.1), Advice.WATCH),  # whatever the part shows that chose the best of many
        ((1.1, 1.6), (0.5, 0.9), Advice.STAY),  # a loss is shown
        ((0.9, 1.9), (0.8, 1.7), Advice.STAY),  # not better on both together
        ((0.8, 1.2), (0.8, 1.2), Advice.TOO_LITTLE),
        ((np.nan, np.nan), (0.5, 0.8), Advice.TOO_LITTLE),  # nobody waits on the last part
        ((0.9, 1.2), (0.8, 1.2), Advice.STAY),  # a small gain that the last part does not have
    ],
)
def test_a_change_is_shown_by_both_parts_or_the_last_and_stopped_by_a_loss(testing, together, answer):
    now, chosen = (Candidate(parse_pipeline(policy, "easy"), "history") for policy in ("fcfs", "saf"))
    found = [interval_of(*ends) for ends in (testing, together)]
    assert decide(now, chosen, *found) is answer
    assert decide(now, now, *found) is Advice.STAY


def test_a_part_that_says_nothing_does_not_hide_what_another_shows():
    """Whichever part it is; and waits where there were none are a loss."""
    now, chosen = (Candidate(parse_pipeline(policy, "easy"), "history") for policy in ("fcfs", "saf"))
    nothing, gain = Interval(0.8, np.nan, np.nan), interval_of(0.6, 0.9)
    assert decide(now, chosen, nothing, gain) is Advice.CHANGE
    assert decide(now, chosen, gain, nothing) is Advice.CHANGE
    assert decide(now, chosen, Interval(np.inf, np.nan, np.nan), gain) is Advice.STAY


def test_what_there_is_now_is_what_the_cluster_file_says(jobs):
    named = replace(CLUSTER, scheduler=Scheduler(policy="wfp3", backfill="conservative"))
    assert usual_now(jobs, named).pipeline.label == "wfp3 + conservative"


def test_queues_of_a_past_maintenance_are_told_apart_from_the_gain(made, jobs):
    tuning, _ = made
    assert tuning.without_past is None
    runner = StretchRunner(jobs, CLUSTER, "wait", 0)
    submit = jobs.submit_s[tuning.parts[2].first]
    down = replace(CLUSTER, maintenance=(Maintenance(start_s=submit + 1e4, end_s=submit + 2e5),))
    pair, parts = (tuning.chosen, tuning.now), tuning.parts[1:]
    found = without_past(replace(runner, cluster=down), pair, parts, 0.95)
    assert (found.maintenance, found.outages) == (1, 0)
    assert found.testing == tuning.testing
    assert without_past(runner, pair, parts, 0.95) is None
    told = sentences(replace(tuning, without_past=found))
    assert "hold 1 maintenance window of the cluster's file" in told[1]  # right after the answer
    assert "Without them it is" in told[1]
    for ratio, said in (
        (0.7, " on both: expect the second (not shown beyond chance: "),
        (0.999, ": the gain is theirs, "),
    ):
        gain = replace(found, together=Interval(ratio, 0.5, 1.2))
        assert said in sentences(replace(tuning, without_past=gain))[1]


def test_from_when_on_a_group_counts_as_waiting_longer_is_said_once(made):
    tuning, _ = made
    one = replace(tuning.shares[0], now_s=1000.0, then_s=1040.0)
    groups = (one, replace(one, then_s=2000.0), replace(one, then_s=500.0), replace(one, kind="user", then_s=500.0))
    told = [said for said in sentences(replace(tuning, shares=groups)) if said.startswith("By ")]
    assert told[0].startswith("By size, counting changes of more than 5 %: 1 of 3 groups wait less, 1 longer (")
    assert told[1] == "By user: 1 of 1 groups wait less, 0 longer."


def test_a_tail_that_grows_is_named_though_the_mean_falls(made):
    tuning, _ = made
    share = replace(tuning.shares[0], now_s=900.0, then_s=300.0, p90_s=(1e3, 9e3), worst_s=(2e3, 3e4))
    told = sentences(replace(tuning, shares=(share,)))
    assert f"The slowest tenth (p90) gets longer in 1 of 1 groups (size {share.name}: 16.7 min -> 2.5 h)." in told
    assert f"The worst wait gets longer in 1 of 1 groups (size {share.name}: 33.3 min -> 8.3 h)." in told


def test_one_interval_decides_and_no_other_stands_beside_it(made):
    """That of the ratio: the one of the difference is wider, and two of them in a sentence contradict each other."""
    tuning, _ = made

    def told(low, high):
        found = replace(tuning, testing=interval_of(low, high), apart=Interval(-900.0, -2e4, 2e4))
        return next(one for one in sentences(found) if one.startswith("Last part, "))

    for low, high, so in (
        (0.35, 1.55, "not shown beyond chance: the interval includes 1"),
        (0.35, 0.75, "shown: the interval is below 1"),
        (1.15, 1.55, "shown to be worse: the interval is above 1"),
    ):
        assert told(low, high).count("[") == 1
        assert f"[{low:.3f}, {high:.3f}] of it ({so})." in told(low, high)
    assert "too little waited for an interval" in told(np.nan, np.nan)


def test_who_is_in_no_row_is_said(made, jobs):
    """Sizes with few jobs by name, others by number; of a long list, how many of how many are shown."""
    tuning, _ = made
    kinds = ["size"] * 2 + ["user"] * 12
    shares = tuple(replace(tuning.shares[0], kind=kind, name=f"g{i}") for i, kind in enumerate(kinds))
    small = (SmallGroup("size", "9 to 16 GPUs", 8), SmallGroup("user", "eve", 1), SmallGroup("user", "bob", 3))
    found = replace(tuning, shares=shares, small=(*small, SmallGroup("QOS", "high", 2)))
    said = "(under 20): 9 to 16 GPUs (8 jobs), 2 users, 1 QOS."
    assert any(told.endswith(said) for told in sentences(found))
    assert "8 of 12 users" in " ".join(text_of(shares_table(found)).split())
    assert "Shown are" not in text_of(shares_table(tuning))
    part = tuning.run_on[1]
    ran = simulate(jobs.sorted(), CLUSTER, "fcfs")
    runner = StretchRunner(jobs.sorted(), CLUSTER, "wait", 0)
    told = [(s.kind, s.name) for s in (*runner.shares(ran, ran, part), *runner.small_groups(ran, ran, part))]
    assert len(told) == len(set(told))
    assert sum(s.jobs for s in runner.shares(ran, ran, part) if s.kind == "size") + sum(
        g.jobs for g in runner.small_groups(ran, ran, part) if g.kind == "size"
    ) == len(part)


def test_how_much_history_is_asked_for_is_said_beside_how_much_there_is(made):
    tuning, _ = made
    for answer in (Advice.TOO_LITTLE, Advice.WATCH):
        unsure = {"testing": interval_of(0.6, 1.4), "together": interval_of(0.5, 1.1), "needed_jobs": 12_345}
        (first, *_) = sentences(replace(tuning, answer=answer, **unsure))
        assert "12,000 jobs" in first
        assert "3,000" in first
        assert "on both parts 0.742" in first or "(both together: 0.742" in first


def test_a_file_that_holds_no_runs_is_not_replaced(jobs, tmp_path):
    (tmp_path / "notes").write_text("buy milk\n")
    with pytest.raises(InputError, match="something else than finished runs"):
        tune(jobs, CLUSTER, "fcfs", models=[], minutes=2, kept=tmp_path / "notes")
    assert (tmp_path / "notes").read_text() == "buy milk\n"


@pytest.mark.parametrize("estimator", CANDIDATES)
def test_settings_of_every_estimator_that_may_be_chosen_are_taken(made, estimator, tmp_path):
    """By simulate and compare, and by a controller, which learns from what has ended."""
    tuning, _ = made
    chosen = replace(tuning.chosen, estimator=estimator)
    (tmp_path / "ours.toml").write_text(settings_file(replace(tuning, chosen=chosen)))
    assert load_settings(tmp_path / "ours.toml").pipeline.estimator == estimator
