"""A trace against a cluster: the first job that can never run is named by file, line and column."""

from pathlib import Path

import pytest

from rltune.cluster import Cluster, NodeGroup
from rltune.errors import InputError, TooManyRefusedError
from rltune.trace import load
from rltune.trace.describe import describe
from rltune.trace.fits_cluster import require_fit, require_no_cycle

CLUSTER = Cluster(
    (
        NodeGroup(count=2, gpus=4, gpu_type="P100", vc=("a",)),
        NodeGroup(count=1, gpus=2, gpu_type="K80"),
        NodeGroup(count=1, gpus=0, vc=("cpu",)),
    ),
    name="small",
)


def trace(tmp_path: Path, *rows: str):
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(["submit_s,duration_s,gpus,vc,gpu_types", *rows]))
    return load(path)


def test_jobs_that_fit(tmp_path):
    require_fit(
        trace(tmp_path, "0,1,10,a,", "1,1,10,,", "2,1,2,cpu,", "3,1,0,cpu,", "4,1,2,b,K80", "5,1,8,a,P100|V100"),
        CLUSTER,
    )


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("9,1,11,,", "column gpus: job 1 asks 11 GPUs, cluster small has 10 that it may use"),
        ("9,1,3,b,", "column gpus: job 1 asks 3 GPUs, cluster small has 2 that it may use"),
        ("9,1,9,a,P100", "column gpus: job 1 asks 9 GPUs, cluster small has 8 that it may use"),
        ("9,1,1,a,V100", "column gpu_types: job 1 wants GPUs of type V100, cluster small has P100, K80 for it"),
        ("9,1,1,b,P100", "column gpu_types: job 1 wants GPUs of type P100, cluster small has K80 for it"),
    ],
)
def test_a_job_that_is_too_large(tmp_path, row, said):
    with pytest.raises(InputError) as caught:
        require_fit(trace(tmp_path, "0,1,1,,", row), CLUSTER)
    assert str(caught.value) == f"{tmp_path / 'mine.csv'}, line 3, {said}"


def test_a_vc_that_is_not_there(tmp_path):
    cluster = Cluster((NodeGroup(count=2, gpus=4, vc=("a", "b")),))
    with pytest.raises(InputError, match="line 2, column vc: job 0 is of VC c, the cluster has a, b"):
        require_fit(trace(tmp_path, "0,1,1,c,"), cluster)


def test_the_first_is_named_and_the_others_counted(tmp_path):
    rows = ["5,1,99,,", "0,1,1,,", "1,1,50,,", "2,1,99,,"]
    with pytest.raises(InputError, match=r"line 4, column gpus: job 2 asks 50 .* \(and 2 more of 4 jobs do not fit\)"):
        require_fit(trace(tmp_path, *rows), CLUSTER)


@pytest.mark.parametrize(("fitting", "too_many"), [(98, True), (99, False)])
def test_more_than_one_in_a_hundred_is_what_simulations_refuse_as_well(tmp_path, fitting, too_many):
    with pytest.raises(InputError, match="asks 99 GPUs") as caught:
        require_fit(trace(tmp_path, "0,1,99,,", *["1,1,1,,"] * fitting), CLUSTER)
    assert isinstance(caught.value, TooManyRefusedError) == too_many


def test_a_description(tmp_path):
    about = describe(trace(tmp_path, "0,100,1,a,", "43200,300,3,a,", "86400,50,0,b,").jobs)
    assert (about.jobs, about.gpu_jobs, about.span_days, about.mean_gpus) == (3, 2, 1.0, 2.0)
    assert about.single_gpu_share == 0.5
    assert about.mean_run_s == 200
    assert about.run_quantiles_s["max"] == 300
    assert about.mean_demand_gpus == pytest.approx(1000 / 86400)
    assert about.arrival_cv == 0
    assert about.sizes == {"1": 0.5, "3": 0.5}
    assert about.vcs == {"a": pytest.approx(2 / 3), "b": pytest.approx(1 / 3)}
    assert about.users == 0
    assert about.to_dict()["largest_job"] == 3


def with_dependencies(tmp_path: Path, *after: str):
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(["submit_s,duration_s,gpus,after", *(f"{i},1,1,{rows}" for i, rows in enumerate(after))]))
    return load(path)


def test_dependencies_that_end(tmp_path):
    """Several ways to one job are no cycle."""
    require_no_cycle(with_dependencies(tmp_path, "1;2", "3", "3", "", "0;1;2;3"))


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (("", "1"), "line 3, column after: a cycle of dependencies: job 1 waits for 1"),
        (("3", "0", "1", "2"), "line 2, column after: a cycle of dependencies: job 0 waits for 3 waits for 2"),
        (("", "2", "3", "2;0"), "line 4, column after: a cycle of dependencies: job 2 waits for 3 waits for 2"),
    ],
)
def test_a_cycle_of_dependencies_is_named(tmp_path, after, said):
    with pytest.raises(InputError, match=said):
        require_no_cycle(with_dependencies(tmp_path, *after))


def test_gpu_types_are_the_same_in_any_case(tmp_path):
    """Slurm's accounting says a100 where people write A100; nothing is rejected for that."""
    from rltune import Jobs, simulate

    jobs = Jobs.from_arrays([0.0], [10.0], [1], gpu_types=["a100"])
    schedule = simulate(jobs, Cluster((NodeGroup(count=1, gpus=1, gpu_type="A100"),)), estimator="oracle")
    assert schedule.ran.all()
