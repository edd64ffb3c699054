import numpy as np
import pytest

from rltune import Jobs, simulate
from rltune.trials.groups import SIZES, Groups
from rltune.trials.measures import MEASURED, METRICS
from rltune.trials.outcome import Outcome


@pytest.mark.parametrize("measure", MEASURED)
def test_measures_are_those_of_the_summary(trace, cluster, measure):
    """The short way gives what the long way gives."""
    schedule = simulate(trace.window(300, 200), cluster, "saf", "easy", estimator="oracle")
    got = Outcome.of(schedule, 300, ()).measures[MEASURED.index(measure)]
    assert got == pytest.approx(METRICS[measure].of(schedule.summary()), rel=1e-12)


def test_groups_share_out_all_jobs_and_all_waits(trace, cluster):
    """By size, and by VC."""
    schedule = simulate(trace.window(300, 200), cluster, "fcfs", estimator="oracle")
    by_size, by_vc = Outcome.of(schedule, 300, (Groups.by_size(trace), Groups.by_vc(trace))).by_group
    for table in (by_size, by_vc):
        assert table[:, 0].sum() == 200
        assert table[:, 1].sum() == pytest.approx(schedule.wait_s.sum())
    two = trace.gpus[300:500] == 2
    assert by_size[2].tolist() == pytest.approx([two.sum(), schedule.wait_s[two].sum()])
    of_b = np.array(trace.window(300, 200).vc.to_list()) == "b"
    assert by_vc[trace.vc.names.index("b")].tolist() == pytest.approx([of_b.sum(), schedule.wait_s[of_b].sum()])


def test_every_size_has_its_class():
    """Bounds included."""
    gpus = [0, 1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 5000]
    groups = Groups.by_size(Jobs.from_arrays(np.zeros(len(gpus)), 1, gpus))
    for size, group in zip(gpus, groups.of_job, strict=True):
        low, high = SIZES[group]
        assert low <= size <= high
    assert groups.names[:5] == ("0 GPUs", "1 GPU", "2 GPUs", "3 to 4 GPUs", "5 to 8 GPUs")
    assert groups.names[-1] == "33 GPUs and more"


def test_jobs_that_never_ran_are_counted_and_in_no_mean(cluster):
    """One asks for more than there is; another has no VC."""
    jobs = Jobs.from_arrays([0, 0, 0], [10, 10, 10], [16, 99, 16], vc=["a", "a", None])
    schedule = simulate(jobs, cluster, "fcfs", estimator="oracle")
    got = Outcome.of(schedule, 0, (Groups.by_vc(jobs),))
    assert got.rejected == 1
    assert got.measures[0] == 5
    assert got.by_group[0].tolist() == [[1, 0]]


def test_a_window_in_which_nothing_ran_has_no_measures(cluster):
    """Rather than a mean of nothing with a warning."""
    schedule = simulate(Jobs.from_arrays([0], [10], [99]), cluster, "fcfs", estimator="oracle")
    assert np.isnan(Outcome.of(schedule, 0, ()).measures).all()
