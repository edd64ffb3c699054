"""Pseudonyms: nothing of the originals survives, all relations do."""

import gzip

import numpy as np
import pytest

from rltune.errors import InputError
from rltune.jobs import Jobs
from rltune.trace import read_trace, write
from rltune.trace.anonymise import anonymise

SECRETS = {
    "user": ["alice.smith", "bob_jones", "alice.smith", None],
    "account": ["projekt-geheim", "projekt-geheim", "widgets-inc", None],
    "name": ["fusion-reactor", "train-llm", "fusion-reactor", "train-llm"],
    "vc": ["vc-of-marketing", None, "vc-of-marketing", "deep-lab"],
    "qos": ["boss-only", None, None, "boss-only"],
    "recorded_nodes": ["secret-rack[1-2]", "secret-rack1", None, "otherhall9"],
}


def original():
    return Jobs.from_arrays(
        [0, 1, 2, 3],
        [10, 20, 30, 40],
        [1, 2, 4, 8],
        limit_s=[60, np.nan, 60, 60],
        gpu_types=["V100", None, "T4", "V100"],
        id=["271828_1", "271828_2", "314159_7", "161803"],
        state=["completed", "failed", None, "killed"],
        array=[271828, 271828, 314159, -1],
        after=[[], [0], [], [0, 2]],
        **SECRETS,
    )


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_no_original_string_survives_in_the_file(suffix, tmp_path):
    path = tmp_path / f"shared{suffix}"
    jobs = original().take(np.array([0, 1, 2, 3]))
    write(anonymise(jobs), path)
    data = gzip.decompress(path.read_bytes()) if suffix.endswith("gz") else path.read_bytes()
    text = data + repr(anonymise(jobs)).encode()
    secret = {name for names in SECRETS.values() for name in names if name} | {"271828", "314159", "161803"}
    secret |= {"secret-rack", "otherhall"}
    assert [s for s in secret if s.encode() in text] == []


def test_names_of_jobs_left_out_are_forgotten():
    hidden = anonymise(original().take(np.array([1])))
    assert len(hidden.user.names) == 1
    assert len(hidden.name.names) == 1
    assert hidden.vc.names == ()


def test_relations_are_kept():
    jobs, hidden = original(), anonymise(original())
    for column in SECRETS:
        before, after = getattr(jobs, column).to_list(), getattr(hidden, column).to_list()
        assert [a is None for a in after] == [b is None for b in before]
        assert len({*zip(before, after, strict=True)}) == len(set(before)) == len(set(after))
    assert len(set(hidden.id.tolist())) == 4
    assert hidden.array.tolist() == [1, 1, 2, -1]
    assert [hidden.depends_on(i).tolist() for i in range(4)] == [[], [0], [], [0, 2]]
    for column in ("submit_s", "duration_s", "gpus", "limit_s"):
        np.testing.assert_array_equal(getattr(hidden, column), getattr(jobs, column))
    assert hidden.gpu_types.to_list() == jobs.gpu_types.to_list()
    assert hidden.state.to_list() == jobs.state.to_list()


def test_the_same_salt_gives_the_same_pseudonyms_and_another_gives_others():
    one, same, other = (anonymise(original(), salt=s) for s in ("pepper", "pepper", "chili"))
    assert one.to_polars().equals(same.to_polars())
    assert not set(one.user.names) & set(other.user.names)
    assert not set(anonymise(original()).user.names) & set(anonymise(original()).user.names)


def test_a_name_in_two_columns_gets_two_pseudonyms():
    jobs = anonymise(Jobs.from_arrays([0], [1], [1], user=["ann"], account=["ann"]), salt="x")
    assert jobs.user.name_of(0).split("-")[1] != jobs.account.name_of(0).split("-")[1]


def test_a_node_has_one_pseudonym_in_every_list():
    pair, one, _, other = anonymise(original()).recorded_nodes.to_list()
    assert one in pair.split(",")
    assert len(pair.split(",")) == 2
    assert other not in pair


def test_columns_can_be_kept():
    hidden = anonymise(original(), keep=["vc", "id"])
    assert hidden.vc.to_list() == SECRETS["vc"]
    assert hidden.id.tolist() == original().id.tolist()
    assert hidden.array.tolist() == original().array.tolist()
    assert "alice.smith" not in hidden.user.names


def test_bad_settings():
    with pytest.raises(InputError, match="no column 'gpus' to keep or to hide"):
        anonymise(original(), keep=["gpus"])
    with pytest.raises(InputError, match="an empty salt hides nothing"):
        anonymise(original(), salt="")


def test_what_was_hidden_reads_back(tmp_path):
    hidden = anonymise(original())
    write(hidden, tmp_path / "shared.csv")
    assert read_trace(tmp_path / "shared.csv").to_polars().equals(hidden.to_polars())
