"""A comparison says what the history records of its jobs, and warns if no contender comes near."""

import numpy as np

import rltune
from rltune.evaluation.comparison_tables import comparison_notes
from rltune.evaluation.recorded_waits import recorded_beside
from rltune.evaluation.verdict import verdict
from rltune.metrics.recorded import NOTHING_RECORDED
from rltune.report import render


def compared(recorded):
    jobs = rltune.Jobs.from_arrays(np.zeros(3), [100.0, 10.0, 10.0], 1, recorded_start_s=recorded)
    made = rltune.compare(jobs, rltune.Cluster.uniform(1, 1), ["fcfs", "sjf"], estimator="oracle")
    return made, comparison_notes(made)


def test_the_nearest_contender_is_named():
    """fcfs makes them wait 0, 100 and 110 s, sjf 20, 0 and 10 s."""
    made, notes = compared([0.0, 100.0, 110.0])
    assert notes[0].startswith("Recorded wait of these 3 jobs, from when each could start: mean 70.0 s, median 100.0 s")
    assert "Nearest here is fcfs: mean 70.0 s" in notes[0]
    assert not any("level of waiting" in note for note in notes)
    assert recorded_beside(made, 1).simulated_s.mean == 10


def test_a_level_that_no_contender_reaches_is_a_warning():
    """It stands in the first sentences, on the terminal as on the page."""
    made, notes = compared([0.0, 1000.0, 1100.0])
    assert "even under fcfs the mean wait is 10.0 times shorter than recorded" in notes[1]
    assert "recorded mean wait 11.7 min, nearest here 70.0 s" in verdict(made)
    assert "recorded mean wait 11.7 min, nearest here 70.0 s" in render(made)
    assert "level of waiting" not in verdict(compared([0.0, 100.0, 110.0])[0])


def test_an_evaluation_on_windows_from_idle_says_what_is_recorded():
    """Each window begins idle, so nothing is like the site, and the reader is told."""
    n = 400
    submit = np.arange(n) * 10.0
    evaluated = {"policies": ["sjf"], "estimator": "oracle", "size": 20, "every": 20, "contended_s": 0.0}

    def notes_of(recorded):
        jobs = rltune.Jobs.from_arrays(submit, np.tile([30.0, 5.0], n // 2), 1, recorded_start_s=recorded)
        return rltune.evaluate(jobs, rltune.Cluster.uniform(1, 1), **evaluated).warnings

    assert any("Recorded mean wait in these windows: 2.8 h" in told for told in notes_of(submit + 10_000))
    assert any("The level of waiting is not the site's" in told for told in notes_of(submit + 10_000))
    assert not any("level of waiting" in told for told in notes_of(submit + 80))
    assert NOTHING_RECORDED in notes_of(None)


def test_a_history_without_starts_is_named_as_such():
    _, notes = compared(None)
    assert notes[0] == NOTHING_RECORDED


def test_the_page_has_a_row_for_what_is_recorded():
    assert "recorded in the history" in render(compared([0.0, 100.0, 110.0])[0])
    assert "recorded in the history" not in render(compared(None)[0])
