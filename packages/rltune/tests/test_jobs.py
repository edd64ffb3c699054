"""The job table refuses what the engine cannot work with, and keeps what it is given."""

import numpy as np
import pytest

from rltune import InputError, Jobs
from rltune.preemptibility import CHECKPOINT_S, RESTART_S


def three(**columns):
    return Jobs.from_arrays(**{"submit_s": [0, 1, 2], "duration_s": [5, 6, 7], "gpus": [1, 2, 4]} | columns)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"submit_s": [0, float("nan"), 2]}, "column submit_s, row 1: nan should be a finite time in seconds"),
        ({"duration_s": [5, -1, 7]}, "column duration_s, row 1: -1.0 should be 0 s or more"),
        ({"duration_s": [5, 6]}, "column duration_s has 2 rows, submit_s has 3"),
        ({"gpus": [1, -2, 4]}, "column gpus, row 1: -2 should be 0 or more"),
        ({"gpus": [1, 1.5, 4]}, "column gpus, row 1: 1.5 should be a whole number"),
        ({"gpus": ["one", 2, 4]}, "column gpus holds something that is not a number"),
        ({"gpus": [[1, 2, 4]]}, "column gpus has 2 dimensions, not one"),
        ({"nodes": [2, 0, 0]}, "column nodes, row 0: 2 should be at most the job's GPUs"),
        ({"limit_s": [1, -1, 1]}, "column limit_s, row 1: -1.0 should be 0 s or more, or left out"),
        ({"limit_s": [1, float("inf"), 1]}, "column limit_s, row 1: inf should be 0 s or more, or left out"),
        ({"gpus": [float("nan"), 2, 4]}, "column gpus, row 0: nan should be a whole number"),
        ({"gpus": [1, None, 4]}, "column gpus, row 1: nan should be a whole number"),
        ({"gpus": [1, float("inf"), 4]}, "column gpus, row 1: inf should be a whole number"),
        ({"nodes": [1, float("inf"), 4]}, "column nodes, row 1: inf should be a whole number"),
        ({"array": [1, -2, 4]}, "column array, row 1: -2 should be -1 (no array) or more"),
        ({"array_limit": [1, -2, 4]}, "column array_limit, row 1: -2 should be 0 (any number) or more"),
        (
            {"recorded_start_s": [1, float("inf"), 4]},
            "column recorded_start_s, row 1: inf should be a finite time in seconds, or left out",
        ),
        (
            {"recorded_nodes": ["n1", "n[1-", None]},
            "column recorded_nodes, row 1: 'n[1-' should be a list of nodes such as gpu[01-04],big1",
        ),
        ({"cpus_per_gpu": [1, float("inf"), 1]}, "column cpus, row 1: inf should be 0 or more"),
        ({"cpus": 1, "cpus_per_gpu": 1}, "give cpus in all or per GPU, not both"),
        ({"id": ["a", "b", "a"]}, "job id 'a' is used 2 times (first in row 0)"),
        ({"preemptible": [True, 2, False]}, "column preemptible, row 1: 2.0 should be True or False"),
        ({"preemptible": [True, float("nan"), False]}, "column preemptible, row 1: nan should be True or False"),
        ({"preemptible": [True, False]}, "column preemptible has 2 rows, submit_s has 3"),
        (
            {"checkpoint_s": [1, -1, 1]},
            "column checkpoint_s, row 1: -1.0 should be 0 s or more, or infinite (all is lost)",
        ),
        (
            {"checkpoint_s": [1, 1, float("nan")]},
            "column checkpoint_s, row 2: nan should be 0 s or more, or infinite (all is lost)",
        ),
        ({"checkpoint_s": [1, 1]}, "column checkpoint_s has 2 rows, submit_s has 3"),
        ({"restart_s": [1, -1, 1]}, "column restart_s, row 1: -1.0 should be 0 s or more, and finite"),
        ({"restart_s": [1, float("inf"), 1]}, "column restart_s, row 1: inf should be 0 s or more, and finite"),
        ({"restart_s": [float("nan"), 1, 1]}, "column restart_s, row 0: nan should be 0 s or more, and finite"),
        ({"after": [[], [0], [7]]}, "column after, row 2: [7] should be rows of this table"),
        ({"after": [[], [float("nan")], []]}, "column after, row 1: [nan] should be rows of this table"),
        ({"after": [[]]}, "column after has 1 rows, submit_s has 3"),
    ],
)
def test_a_bad_value_is_named_with_its_column_and_row(columns, sentence):
    with pytest.raises(InputError) as error:
        three(**columns)
    assert str(error.value) == sentence


def test_nodes_where_a_job_ran_are_text_or_a_list_of_names():
    jobs = three(recorded_nodes=["gpu[1-2]", ["a", "b"], None])
    assert jobs.recorded_nodes.to_list() == ["gpu[1-2]", "a,b", None]
    assert jobs.take(np.array([2, 0])).recorded_nodes.to_list() == [None, "gpu[1-2]"]


def test_a_scalar_stands_for_a_column():
    assert three(gpus=2).gpus.tolist() == [2, 2, 2]


def test_cpus_per_gpu_are_counted_for_the_whole_job():
    """Jobs without GPUs have none, whatever is said per GPU."""
    jobs = three(gpus=[1, 4, 0], cpus_per_gpu=2.5, mem_gib_per_gpu=[1, 2, 3])
    np.testing.assert_array_equal(jobs.cpus, [2.5, 10, np.nan])
    np.testing.assert_array_equal(jobs.mem_gib, [1, 8, np.nan])


def test_gpu_types_are_sets_however_they_are_spelled():
    jobs = three(gpu_types=["V100|P100", ["P100", "V100"], None])
    assert jobs.gpu_types.to_list() == ["P100|V100", "P100|V100", None]


def test_no_name_is_spelled_none_nan_or_empty():
    assert three(user=[None, float("nan"), ""]).user.to_list() == [None, None, None]


def test_nobody_is_preemptible_unless_somebody_said_so():
    """What stops a job of which nothing is said costs all its work, and its restart nothing, as before."""
    jobs = three()
    assert not jobs.preemptible.any()
    assert (jobs.checkpoint_s == np.inf).all()
    assert (jobs.restart_s == 0).all()
    assert not jobs.tells_preemption


def test_who_is_preemptible_and_of_whom_no_more_is_said_is_assumed_to_write_checkpoints():
    jobs = three(preemptible=[True, False, True])
    assert jobs.checkpoint_s.tolist() == [CHECKPOINT_S, np.inf, CHECKPOINT_S]
    assert jobs.restart_s.tolist() == [RESTART_S, 0, RESTART_S]
    assert jobs.tells_preemption


def test_what_is_said_of_checkpoints_and_restarts_is_kept():
    """A job that writes checkpoints and may not be displaced is one as well: a node can fail."""
    jobs = three(preemptible=[True, True, False], checkpoint_s=[0, np.inf, 60], restart_s=5)
    assert jobs.checkpoint_s.tolist() == [0, np.inf, 60]
    assert jobs.restart_s.tolist() == [5, 5, 5]
    assert jobs.take(np.array([2])).tells_preemption
    assert "preemptible (2 jobs)" in repr(jobs)


def test_taking_rows_keeps_who_is_preemptible():
    part = three(preemptible=[True, False, True], checkpoint_s=[1, 2, 3], restart_s=[4, 5, 6]).take(np.array([2, 1]))
    assert part.preemptible.tolist() == [True, False]
    assert part.checkpoint_s.tolist() == [3, 2]
    assert part.restart_s.tolist() == [6, 5]


def test_taking_rows_keeps_dep_dependencies_among_them():
    """A dependency on a row that is left out counts as ended."""
    jobs = three(after=[[], [0], [0, 1]])
    part = jobs.take(np.array([2, 1]))
    assert part.depends_on(0).tolist() == [1]
    assert part.depends_on(1).tolist() == []
    assert part.id.tolist() == [2, 1]


def test_sorting_is_stable():
    jobs = three(submit_s=[5, 0, 5]).sorted()
    assert jobs.id.tolist() == [1, 0, 2]


def test_a_table_can_be_empty():
    assert len(Jobs.from_arrays([], [], [])) == 0


def test_the_data_frame_spells_everything_out():
    frame = three(vc=["a", None, "b"], after=[[], [0], []]).to_polars()
    assert frame["vc"].to_list() == ["a", None, "b"]
    assert frame["after"].to_list() == [[], [0], []]
    assert frame["limit_s"].to_list() == [None, None, None]


def test_jobs_print_what_they_are():
    """How many, how long, and what else is told of them."""
    jobs = Jobs.from_arrays([0, 7200], [60, 120], [1, 8], user=["a", "b"], vc=["v", None], limit_s=[100, np.nan])
    assert repr(jobs).splitlines() == [
        "Jobs: 2 jobs, submitted over 2.0 h",
        "  GPUs: 1 to 8 a job, mean 4.5",
        "  run time: median 90.0 s, mean 90.0 s, longest 2.0 min",
        "  told as well: limit_s, vc (1 name), user (2 names)",
    ]
    assert str(jobs) == repr(jobs)
    assert "user (2 names)" in jobs._repr_html_()


def test_no_jobs_print_as_none():
    assert repr(Jobs.from_arrays([], [], [])) == "Jobs: 0 jobs"
