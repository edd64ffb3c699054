"""Which jobs a cluster can never run, in the reader's words."""

import pytest

from rltune import Cluster, Jobs
from rltune.cluster import NodeGroup
from rltune.trials.refused_jobs import Refused

ON = Cluster((NodeGroup(count=2, gpus=4, gpu_type="A100-80GB", vc=("gpu",)), NodeGroup(count=1, gpus=0, vc=("cpu",))))


def refused(**columns):
    usual = {"gpus": [1, 1], "vc": ["gpu", "gpu"], "gpu_types": [None, None]}
    jobs = Jobs.from_arrays(submit_s=[0.0, 1.0], duration_s=[1.0, 1.0], **(usual | columns))
    return Refused.of_history(jobs, ON)


@pytest.mark.parametrize(
    ("columns", "cause"),
    [
        ({"vc": ["gpu", "gpus"]}, "1 job of partition gpus, which no group has (did you mean gpu? There are gpu, cpu)"),
        ({"vc": ["gpu", "interactive"]}, "1 job of partition interactive, which no group has (there are gpu, cpu)"),
        (
            {"gpu_types": [None, "a100"]},
            "1 job of GPU type a100, which no group has (did you mean A100-80GB? There are A100-80GB)",
        ),
        ({"gpu_types": [None, "V100"]}, "1 job of GPU type V100, which no group has (there are A100-80GB)"),
        ({"vc": ["gpu", "cpu"]}, "1 job of partition cpu, where no group has GPUs"),
        ({"gpus": [1, 9]}, "1 job (larger than the cluster of 8 GPUs: needs nodes with"),
    ],
)
def test_the_cause_names_what_was_probably_meant(columns, cause):
    told = refused(**columns)
    assert (told.jobs, told.of) == (1, 2)
    assert told.causes[0].startswith(cause)
    assert str(told).startswith(f"1 of 2 jobs (50.0 %) can never run on this cluster: {cause}")


def test_another_spelling_is_no_other_name():
    assert refused(vc=["GPU", "Gpu"], gpu_types=["a100-80gb", "A100-80gb"]).jobs == 0


def test_many_causes_are_counted_and_the_commonest_told():
    names = [*"abcdde", "gpu"]
    jobs = Jobs.from_arrays(submit_s=range(7), duration_s=[1.0] * 7, gpus=[1] * 7, vc=names)
    told = Refused.of_history(jobs, ON)
    assert told.jobs == 6
    assert str(told).count("which no group has") == 3
    assert told.causes[0].startswith("2 jobs of partition d")
    assert str(told).endswith("; and 2 more causes")


def test_one_in_a_hundred_is_tolerated():
    assert not Refused(1, 100, ("",)).is_too_many
    assert Refused(2, 100, ("",)).is_too_many
