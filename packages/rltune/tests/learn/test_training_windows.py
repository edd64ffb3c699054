"""Windows to train on: where jobs queue, the same for the same key, varied as told."""

import numpy as np
import pytest

from rltune.cluster import Cluster
from rltune.engine.parse_pipeline import parse_pipeline
from rltune.engine.pipeline import Pipeline
from rltune.engine.simulate import simulate
from rltune.errors import InputError
from rltune.estimate import get_estimator
from rltune.jobs import Jobs
from rltune.learn.training_windows import TrainingWindow, Variation, Windows, busy_places
from rltune.parallel import Here, Threads
from rltune.policy import get_policy
from rltune.trials.parts import Part
from rltune.trials.warm_start import Knowledge

N = 400
RNG = np.random.default_rng(0)
# Arrivals come in a quiet first half, where nobody waits, and a dense second.
JOBS = Jobs.from_arrays(
    submit_s=np.concatenate([np.arange(200) * 2_000.0, 400_000 + np.arange(200) * 20.0]),
    duration_s=RNG.uniform(10, 900, N),
    gpus=RNG.choice([1, 2, 4], N),
    user=RNG.choice(["ann", "bob"], N).tolist(),
)
SMALL = Cluster.uniform(2, 4)


def windows(**changes) -> Windows:
    """Make windows of 20 jobs of the whole trace."""
    given = {
        "jobs": JOBS,
        "cluster": SMALL,
        "part": Part("training", 0, N),
        "size": 20,
        "pipeline": parse_pipeline("saf"),
        "estimators": (get_estimator("oracle"),),
        "contended_s": 30.0,
        **changes,
    }
    return Windows(**given)


def drawn(made: Windows, count: int = 12, key: tuple[int, ...] = (0, 1), spread=None) -> list[TrainingWindow]:
    """Draw windows."""
    return made.draw(count, key, Knowledge(JOBS, 0), spread or Here())


def test_only_windows_in_which_jobs_queue_are_drawn():
    """FCFS waits longer than asked in each, though half of the trace is quiet."""
    for window in drawn(windows()):
        fcfs = simulate(window.jobs, SMALL, "fcfs", estimator="oracle")
        assert fcfs.wait_s.mean() > 30.0
        assert window.first + 20 > 200


def test_a_survey_keeps_to_places_where_jobs_queue_and_misses_none_of_them():
    """What is drawn is contended; candidates are few; every contended start of the trace can be drawn."""
    made = windows(survey=True, size=64)  # every fourth place is looked at
    known = Knowledge(JOBS, 0)
    busy = set(busy_places(made, Here()).tolist())
    contended = {first for first in made.places if _contended(made, first, known)}
    assert contended <= busy
    assert 0 < len(contended) < len(made.places)
    assert len(busy) <= len(contended) + 2 * 4  # at most a step beyond either end
    for window in drawn(made):
        assert window.first in contended
    again = windows(survey=True, size=64)
    assert [w.first for w in drawn(made)] == [w.first for w in drawn(again, spread=Threads(2))]


def test_a_survey_is_shared_by_trainings_on_the_same_jobs_and_cluster_only():
    """Another base policy needs no survey of its own; another cluster, threshold or trace does."""
    first = busy_places(windows(survey=True), Here())
    assert busy_places(windows(survey=True, pipeline=parse_pipeline("fcfs")), Here()) is first
    for other in ({"contended_s": 300.0}, {"cluster": Cluster.uniform(1, 4)}, {"jobs": JOBS.take(np.arange(N - 1))}):
        part = Part("training", 0, len(other.get("jobs", JOBS)))
        assert busy_places(windows(survey=True, **{"part": part, **other}), Here()) is not first


def test_a_survey_that_finds_nothing_leaves_all_places_to_be_tried():
    """The sentence is the same as without one."""
    for survey in (False, True):
        with pytest.raises(InputError, match="only 0 of 300 windows"):
            drawn(windows(contended_s=1e9, survey=survey))


def _contended(made: Windows, first: int, known: Knowledge) -> bool:
    window = made._plain(first, 0, known)
    fcfs = window.times(get_policy("fcfs"))
    return bool((fcfs.start_s - fcfs.submit_s).mean() > made.contended_s)


def test_the_same_key_gives_the_same_windows_on_any_number_of_threads():
    """Another key gives others."""
    with Threads(3) as threads:
        spread = [w.first for w in drawn(windows(), spread=threads)]
    assert spread == [w.first for w in drawn(windows())]
    assert spread != [w.first for w in drawn(windows(), key=(0, 2))]


def test_a_window_knows_what_the_base_policy_made_of_it():
    """The base result is that of a simulation of the same jobs, made once."""
    for window in drawn(windows(pipeline=parse_pipeline("sjf")), 3):
        again = simulate(window.jobs, SMALL, "sjf", estimator="oracle")
        assert window.under_base.start_s.tolist() == again.start_s.tolist()


def test_windows_stay_within_their_part():
    """What is held out is not trained on."""
    made = drawn(windows(part=Part("training", 200, 300)))
    assert all(200 <= w.first <= 280 for w in made)


def test_load_is_varied_in_both_directions_and_the_order_stays():
    """Arrivals are compressed or stretched by up to the factor."""
    made = drawn(windows(variation=Variation(load=2.0), contended_s=0.0), 30)
    factors = [np.ptp(JOBS.submit_s[w.first : w.first + 20]) / np.ptp(w.jobs.submit_s) for w in made]
    assert 0.5 <= min(factors) < 0.8
    assert 1.25 < max(factors) <= 2.0
    assert all((np.diff(w.jobs.submit_s) >= 0).all() for w in made)


def test_clusters_are_varied_by_whole_nodes():
    """Each group loses or gains nodes within the share, and keeps at least one."""
    ten = Cluster.uniform(10, 1)
    rng = np.random.default_rng(0)
    counts = {Variation(cluster=0.3).of_cluster(ten, rng).node_count for _ in range(100)}
    assert counts == {7, 8, 9, 10, 11, 12, 13}
    one = Cluster.uniform(1, 4)
    assert {Variation(cluster=0.9).of_cluster(one, rng).node_count for _ in range(50)} <= {1, 2}


def test_nothing_is_varied_unless_told():
    """A window is then a piece of the trace on the cluster itself."""
    for window in drawn(windows(), 3):
        assert window.cluster == SMALL
        assert window.jobs.submit_s.tolist() == JOBS.submit_s[window.first : window.first + 20].tolist()


def test_of_several_estimators_every_window_draws_one():
    """So a policy learns to live with each."""
    names = ("oracle", "noisy:1.2", "history")
    made = drawn(windows(estimators=tuple(get_estimator(name) for name in names)), 30)
    assert {w.estimator.name for w in made} == {"oracle", "noisy:1.2", "history-warm"}


def test_history_knows_only_what_had_ended():
    """The estimates of a window are those of a history that starts warm."""
    from rltune.estimate import History

    made = drawn(windows(estimators=(get_estimator("history"),)), 2)
    for window in made:
        warm = History().after(JOBS.window(0, window.first))
        ours = window.machine(get_policy("saf"))
        ours.run()
        theirs = simulate(window.jobs, SMALL, "saf", estimator=warm)
        assert ours.state.life.estimate.tolist() == pytest.approx(theirs.estimate_s.tolist())


def test_held_out_windows_are_spread_over_the_part():
    """They are the same each time, contended, and not all from one place."""
    made = windows(part=Part("validation", 200, 400)).spaced(4, Knowledge(JOBS, 0), Here())
    firsts = [w.first for w in made]
    assert firsts == sorted(firsts)
    assert len(firsts) == 4
    assert firsts[-1] - firsts[0] > 60


def test_where_no_window_is_contended_those_with_a_queue_are_held_out():
    """A quiet part can still tell networks apart; one without any queue cannot, and is refused."""
    known = Knowledge(JOBS, 0)
    assert windows(contended_s=1e9).spaced(4, known, Here())
    with pytest.raises(InputError, match="waits under FCFS"):
        windows(part=Part("validation", 0, 150)).spaced(4, known, Here())


def test_too_few_contended_windows_are_refused_with_a_way_out():
    """Before anything is trained."""
    with pytest.raises(InputError, match="lower contended="):
        drawn(windows(contended_s=1e9))


def test_where_nobody_waits_no_lower_threshold_is_advised():
    with pytest.raises(InputError, match="make anybody wait under FCFS; enlarge") as refused:
        drawn(windows(contended_s=0, part=Part("training", 0, 150)))
    assert "contended=" not in str(refused.value)


@pytest.mark.parametrize("wrong", [{"load": 0.5}, {"cluster": 1.0}, {"cluster": -0.1}])
def test_a_variation_that_cannot_be_is_refused(wrong):
    """In one sentence."""
    with pytest.raises(InputError, match="can be varied"):
        Variation(**wrong)


def test_a_window_without_a_base_result_says_so():
    """Rewards cannot be made of nothing."""
    window = TrainingWindow(0, JOBS.window(0, 5), SMALL, get_estimator("oracle"), Pipeline())
    with pytest.raises(ValueError, match="has not run"):
        _ = window.under_base
