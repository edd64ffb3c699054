"""Evolution of the network."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from rltune import Cluster, Jobs, simulate
from rltune.errors import InputError
from rltune.kernel.build.prepare import copy_state
from rltune.learn.cma_es import Cma, EvolveSettings, two_scores
from rltune.learn.evolve import EvolvePlan, evolve_policy
from rltune.learn.replayed_windows import Stage, costs, mean_wait
from rltune.model.feature_sets import get_recipe
from rltune.model.learned_model import Model
from rltune.policy.learned import Learned
from rltune.trace import synthesise

SMALL = Cluster.uniform(4, 8)
PLAN = EvolvePlan(
    estimators=("oracle",),
    pool=4,
    size=128,
    held_windows=3,
    contended_s=1.0,
    evolve=EvolveSettings(generations=2, tried=4, windows=2, every=1, threads=1),
)


def busy(count: int, seed: int) -> Jobs:
    """Make more jobs than a small cluster can take."""
    return synthesise("philly", count, seed=seed, load=1.5, cluster=SMALL)


def test_cma_finds_the_bottom_of_a_bowl() -> None:
    """On a stretched quadratic the mean comes close to the best point."""
    cma = Cma(np.full(4, 3.0), 0.5, 12, np.random.default_rng(0))
    scale = np.array([1.0, 10.0, 0.1, 3.0])
    for _ in range(150):
        cma.tell((cma.ask() ** 2 * scale).sum(axis=1))
    assert np.abs(cma.mean).max() < 0.05


def test_two_scores_are_what_they_say() -> None:
    """The network of (a, b) gives a x for every job, and max(0, b x + 1) more for one that fits."""
    recipe = get_recipe("wide")
    k = len(recipe.inputs)
    norm = np.column_stack([np.full(k, 0.4), np.full(k, 2.0), np.full(k, -9.0), np.full(k, 9.0)])
    rng = np.random.default_rng(1)
    weights, matrix = two_scores(recipe, (8, 6), norm, rng)
    a, b = rng.normal(size=k), rng.normal(size=k) * 0.2
    fits = recipe.inputs.index("can_schedule_now")
    a[fits] = b[fits] = 0.0
    flat = weights + matrix @ np.concatenate([a, b, [1.0]])
    for raw in (0.0, 1.0):
        x = rng.normal(size=k)
        x[fits] = (raw - 0.4) * 2.0
        extra = max(0.0, b @ x + 1.0) if raw else 0.0
        assert _logit(flat, x, (8, 6)) == pytest.approx(a @ x + extra, abs=1e-9)


def test_bends_add_and_take_away_by_turns() -> None:
    """Each bend is max(0, c x + d); its weights touch nothing else, and without them the score is as before."""
    recipe = get_recipe("wide")
    k = len(recipe.inputs)
    norm = np.column_stack([np.zeros(k), np.ones(k), np.full(k, -9.0), np.full(k, 9.0)])
    rng = np.random.default_rng(2)
    plain, narrow = two_scores(recipe, (8, 6), norm, np.random.default_rng(5))
    bent, matrix = two_scores(recipe, (8, 6), norm, np.random.default_rng(5), bends=3)
    assert matrix.shape[1] == narrow.shape[1] + 3 * (k + 1)
    base, more = rng.normal(size=2 * k + 1) * 0.2, rng.normal(size=(3, k + 1))
    for _ in range(5):
        x = rng.normal(size=k)
        one, two, three = np.maximum(0.0, more[:, :k] @ x + more[:, k])
        without = _logit(plain + narrow @ base, x, (8, 6))
        found = _logit(bent + matrix @ np.concatenate([base, more.ravel()]), x, (8, 6))
        assert found == pytest.approx(without + one - two + three, abs=1e-9)


def test_a_bent_score_under_a_guard_is_evolved_like_any_other() -> None:
    """Validation is under the guard: the base policy's cost, too, is that of the guarded base policy."""
    found = evolve_policy([(busy(4000, 1), SMALL)], replace(PLAN, bends=2, guard="1h"))
    free = evolve_policy([(busy(4000, 1), SMALL)], replace(PLAN, bends=2))
    assert found.told[0].validation != free.told[0].validation
    assert len(found.model.weights) == len(free.model.weights)


def _logit(flat: np.ndarray, x: np.ndarray, hidden: tuple[int, int]) -> float:
    sizes = (len(x), *hidden, 1)
    at = 0
    for n_in, n_out in pairwise(sizes):
        w = flat[at : at + n_in * n_out].reshape(n_in, n_out)
        at += n_in * n_out
        x = x @ w + flat[at : at + n_out]
        at += n_out
        if n_out > 1:
            x = np.maximum(x, 0.0)
    return float(x[0])


def test_a_stage_can_be_run_again_on_any_number_of_threads() -> None:
    """The same weights cost the same, whoever ran before and beside."""
    from rltune.engine.parse_pipeline import parse_pipeline
    from rltune.engine.run import Machine
    from rltune.estimate import get_estimator
    from rltune.policy.learned import Learned

    jobs, cluster = busy(600, 2), SMALL
    model = evolve_policy([(busy(4000, 1), SMALL)], PLAN).model
    stages = []
    for first in (0, 150, 300):
        window = jobs.window(first, 128)
        machine = Machine.of(window, cluster, parse_pipeline(Learned(model)), get_estimator("oracle"))
        stages.append(Stage(machine, copy_state(machine.state)))
    tried = [model.weights, -model.weights, model.weights * 0.5]
    alone = costs(stages, tried, mean_wait, threads=1)
    assert np.array_equal(alone, costs(stages, tried, mean_wait, threads=3))
    assert alone.shape == (3, 3)


def test_the_same_seed_gives_the_same_model_and_the_best_held_out_is_kept() -> None:
    """Evolution is a function of its seed; what it gives is never worse, held out, than where it began."""
    jobs, cluster = busy(4000, 1), SMALL
    one, two = evolve_policy([(jobs, cluster)], PLAN), evolve_policy([(jobs, cluster)], PLAN)
    assert one.model.sha256 == two.model.sha256
    best = [news.validation for news in one.told if news.best]
    assert best == sorted(best, reverse=True)
    assert min(news.validation for news in one.told) == best[-1]


@pytest.mark.parametrize("placement", ["exclusive", "milp:4"])
def test_a_policy_evolves_where_it_is_to_work(placement: str) -> None:
    """Windows are placed as told, the card says so, and the numbers are others."""
    plan = replace(PLAN, placement=placement)
    sources = [(busy(4000, 1), SMALL)]
    found, packed = evolve_policy(sources, plan), evolve_policy(sources, replace(plan, placement="best-fit"))
    assert found.model.card.settings["placement"] == placement
    assert [news.validation for news in found.told] != [news.validation for news in packed.told]


def test_what_cannot_be_evolved_is_refused() -> None:
    """An unknown objective, features without can_schedule_now, layers too narrow."""
    for wrong, said in (
        ({"objective": "joy"}, "no objective 'joy'"),
        ({"features": "naive"}, "can_schedule_now"),
        ({"hidden": (2, 6)}, "3 units"),
        ({"hidden": (8, 6, 4)}, "two hidden layers"),
        ({"hidden": (8, 6), "bends": 4}, "with 4 bends needs layers of 7 units"),
    ):
        with pytest.raises(InputError, match=said):
            EvolvePlan(**wrong)  # type: ignore[arg-type]


def test_a_model_for_turns_is_evolved_and_a_feature_of_weight_0_changes_no_start() -> None:
    """It is made under las, and neither of the features of turns moves anything while its weight is 0."""
    jobs = busy(1200, 5)
    everybody = jobs.with_columns(preemptible=np.ones(len(jobs), dtype=bool), checkpoint_s=np.full(len(jobs), 60.0))
    plan = replace(PLAN, objective="delay", preempt="las:run=60", features="turns", backfill="fit-first")
    model = evolve_policy([(everybody, SMALL)], plan).model
    assert model.card.settings["preempt"] == "las:run=60"
    taught = simulate(everybody.window(0, 128), SMALL, Learned(model), "fit-first", estimator="oracle", preempt="las")
    assert taught.preemptions.sum() > 0
    with pytest.raises(InputError, match="objective delay"):
        replace(plan, objective="wait")
    wide, turns = get_recipe("wide"), get_recipe("turns")
    norm = np.tile([0.0, 1.0, -np.inf, np.inf], (len(turns.inputs), 1))
    rng = np.random.default_rng(3)
    at = [turns.inputs.index(name) for name in wide.inputs]
    told = rng.normal(size=len(wide.inputs))
    wider = np.zeros(len(turns.inputs))
    wider[at] = told
    runs = []
    for recipe, scores, scale in ((wide, told, norm[at]), (turns, wider, norm)):
        weights, matrix = two_scores(recipe, (8, 6), scale, np.random.default_rng(0))
        flat = weights + matrix @ np.concatenate([scores, np.zeros(len(scores)), [1.0]])
        policy = Learned(Model(recipe, (8, 6), flat, scale, "saf"))
        runs.append(simulate(everybody.window(0, 256), SMALL, policy, "fit-first", estimator="oracle", preempt="las"))
    assert runs[0].preemptions.sum() > 0
    assert runs[0].end_s.tolist() == runs[1].end_s.tolist()


def test_a_network_that_says_who_gives_way_begins_as_gittins_order(willing: Jobs) -> None:
    """Before the first step it costs what that order costs, and it is taught to score running jobs, too."""
    plan = replace(
        PLAN, base="fcfs", objective="delay", backfill="fit-first", preempt="policy:margin=4:each=0.05",
        features="giving-way", hidden=(4, 3), estimators=("history",), size=256,
    )  # fmt: skip
    found = evolve_policy([(willing, SMALL)], plan)
    assert found.told[0].validation == pytest.approx(1.0, abs=0.02)
    assert "runs" in found.model.recipe.inputs
    schedule = simulate(willing, SMALL, Learned(found.model), "fit-first", preempt="policy", estimator="history")
    assert schedule.preemptions.sum() > 0


@pytest.mark.parametrize("preempt", ["off", "las", "gittins"])
def test_who_gives_way_is_not_taught_where_nobody_asks_it(preempt: str) -> None:
    """Running jobs are scored by the order `policy` only: elsewhere half of what is searched would do nothing."""
    with pytest.raises(InputError, match="they say who gives way"):
        EvolvePlan(features="giving-way", objective="delay", preempt=preempt)


@pytest.fixture
def willing() -> Jobs:
    jobs = busy(2000, 4)
    n = len(jobs)
    return jobs.with_columns(
        preemptible=np.ones(n, dtype=bool), checkpoint_s=np.full(n, 600.0), restart_s=np.full(n, 60.0)
    )
