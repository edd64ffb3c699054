"""Our own csv and parquet give back exactly what was written."""

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rltune.errors import InputError
from rltune.jobs import Jobs
from rltune.trace import load, read_trace, write

SUFFIXES = (".csv", ".csv.gz", ".parquet")
names = st.none() | st.text(
    st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=("Cs",)), min_size=1, max_size=6
)
times = st.floats(0, 1e9, allow_nan=False, allow_subnormal=False)
maybe = times | st.just(float("nan"))


@st.composite
def tables(draw):
    n = draw(st.integers(1, 6))

    def column(values):
        return draw(st.lists(values, min_size=n, max_size=n))

    gpus = column(st.integers(0, 64))
    ids = draw(st.just(None) | st.lists(st.integers(0, 2**40) | st.none(), min_size=n, max_size=n, unique=True))
    if ids is not None:
        ids = [7 if i is None else i for i in ids] if draw(st.booleans()) else [f"job {i}" for i in ids]
        ids = None if len(set(ids)) < n else ids
    return Jobs.from_arrays(
        submit_s=sorted(column(times)),
        duration_s=column(times),
        gpus=gpus,
        limit_s=column(maybe),
        vc=column(names),
        user=column(names),
        gpu_types=column(st.none() | st.sampled_from(["T4", "V100|T4", "A100"])),
        nodes=[draw(st.integers(0, g)) for g in gpus],
        id=ids,
        gpus_per_node=column(st.integers(0, 8)),
        cpus=column(maybe),
        mem_gib=column(maybe),
        account=column(names),
        qos=column(names),
        name=column(names),
        state=column(st.none() | st.sampled_from(["completed", "failed"])),
        recorded_start_s=column(maybe),
        recorded_eligible_s=column(maybe),
        recorded_nodes=column(st.none() | st.sampled_from(["n1", "gpu[01-04],big1", ["a", "b"]])),
        array=column(st.integers(-1, 5)),
        array_limit=column(st.integers(0, 5)),
        preemptible=draw(st.none() | st.lists(st.booleans(), min_size=n, max_size=n)),
        checkpoint_s=draw(st.none() | st.lists(times | st.just(float("inf")), min_size=n, max_size=n)),
        restart_s=draw(st.none() | st.lists(times, min_size=n, max_size=n)),
        after=[draw(st.lists(st.integers(0, i - 1), max_size=2)) if i else [] for i in range(n)],
    )


def assert_same(one, other):
    assert one.to_polars().equals(other.to_polars(), null_equal=True)
    assert one.id.dtype.kind == other.id.dtype.kind
    np.testing.assert_array_equal(one.after_ptr, other.after_ptr)


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(jobs=tables())
def test_round_trip_is_exact(jobs, suffix, tmp_path):
    path = tmp_path / f"jobs{suffix}"
    write(jobs, path)
    assert_same(read_trace(path), jobs)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    "ids", [["7", "007"], ["7", "8"], [7, 8], ["a,b", 'say "hi"'], ["line\nend", "x"], [" a", "None"]]
)
def test_ids_stay_numbers_or_text(ids, suffix, tmp_path):
    jobs = Jobs.from_arrays([0, 1], [1, 1], [1, 1], id=ids)
    write(jobs, tmp_path / f"jobs{suffix}")
    back = read_trace(tmp_path / f"jobs{suffix}")
    assert back.id.tolist() == ids


@pytest.mark.parametrize("name", ["None", "nan", "null", "unknown", " padded ", "N/A"])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_names_that_look_like_nothing_are_names(name, suffix, tmp_path):
    jobs = Jobs.from_arrays([0, 1], [1, 1], [1, 1], user=[name, None])
    write(jobs, tmp_path / f"jobs{suffix}")
    assert read_trace(tmp_path / f"jobs{suffix}").user.to_list() == [name, None]


def test_three_columns_are_a_trace(tmp_path):
    (tmp_path / "mine.csv").write_text("submit_s,duration_s,gpus\n5,10,2\n0,3.5,1\n")
    jobs = read_trace(tmp_path / "mine.csv")
    assert jobs.submit_s.tolist() == [0, 5]
    assert jobs.duration_s.tolist() == [3.5, 10]
    assert jobs.id.tolist() == [1, 0]
    assert np.isnan(jobs.limit_s).all()


def test_dependencies_follow_the_jobs_when_they_are_sorted(tmp_path):
    (tmp_path / "mine.csv").write_text("submit_s,duration_s,gpus,after\n9,1,1,1;2\n0,1,1,\n5,1,1,1\n")
    jobs = read_trace(tmp_path / "mine.csv")
    assert [jobs.depends_on(i).tolist() for i in range(3)] == [[], [0], [0, 1]]


@pytest.mark.parametrize("after", ["3", "-1", "x", "0;"])
def test_dependencies_on_what_is_not_there(after, tmp_path):
    (tmp_path / "mine.csv").write_text(f"submit_s,duration_s,gpus,after\n0,1,1,\n1,1,1,{after}\n")
    with pytest.raises(InputError, match=r"line 3, column after: .* should be rows of this table, 0 to 1"):
        load(tmp_path / "mine.csv")


def test_a_column_that_is_not_ours_is_said(tmp_path):
    (tmp_path / "mine.csv").write_text("submit_s,duration_s,gpus,limits_s,shoe\n0,1,1,60,44\n")
    (finding,) = load(tmp_path / "mine.csv").quality.findings
    assert (finding.rule, finding.count, finding.example) == ("unknown-column", 1, "limits_s, shoe")


def test_cpus_and_memory_may_be_given_per_gpu(tmp_path):
    (tmp_path / "mine.csv").write_text("submit_s,duration_s,gpus,cpus_per_gpu,mem_gib_per_gpu\n0,1,4,6,\n1,1,2,,32\n")
    jobs = read_trace(tmp_path / "mine.csv")
    np.testing.assert_array_equal(jobs.cpus, [24, np.nan])
    np.testing.assert_array_equal(jobs.mem_gib, [np.nan, 64])
    (tmp_path / "mine.csv").write_text("submit_s,duration_s,gpus,cpus_per_gpu,cpus\n0,1,4,6,24\n")
    with pytest.raises(InputError, match=r"mine.csv: give cpus in all or per GPU, not both"):
        read_trace(tmp_path / "mine.csv")


def test_parquet_of_other_types_reads_as_well(tmp_path):
    frame = pl.DataFrame({"submit_s": [3, 1], "duration_s": [1, 2], "gpus": [1.0, 2.0], "user": ["a", None]})
    frame.write_parquet(tmp_path / "mine.parquet")
    jobs = read_trace(tmp_path / "mine.parquet")
    assert jobs.gpus.tolist() == [2, 1]
    assert jobs.user.to_list() == [None, "a"]


def test_the_same_jobs_give_the_same_bytes(tmp_path):
    jobs = Jobs.from_arrays([0, 1], [1, 1], [1, 1])
    for name in ("a.csv.gz", "b.csv.gz"):
        write(jobs, tmp_path / name)
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()


def test_what_cannot_be_written(tmp_path):
    jobs = Jobs.from_arrays([0], [1], [1])
    with pytest.raises(InputError, match=r"jobs.xls: the name should end in .csv, .csv.gz, .parquet"):
        write(jobs, tmp_path / "jobs.xls")
    with pytest.raises(InputError, match="cannot be written"):
        write(jobs, tmp_path / "no" / "such" / "folder.csv")
    with pytest.raises(InputError, match="cannot be written"):
        write(jobs, tmp_path / "no" / "such" / "folder.parquet")
    with pytest.raises(InputError, match=r"negative submit time \(-1 s\)"):
        write(Jobs.from_arrays([-1], [1], [1]), tmp_path / "jobs.csv")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_in_which_nothing_is_said_of_preemption_has_no_such_columns(suffix, tmp_path):
    """It is byte for byte what earlier versions wrote."""
    path = tmp_path / f"jobs{suffix}"
    write(Jobs.from_arrays([0, 1], 1, 1), path)
    frame = pl.read_parquet(path) if suffix == ".parquet" else pl.read_csv(path)
    assert "preemptible" not in frame.columns


def test_a_table_of_ones_own_may_say_who_is_preemptible_and_no_more(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("submit_s,duration_s,gpus,preemptible,restart_s\n0,9,1,true,\n1,9,1,no,\n2,9,1,,7\n3,9,1,1,0\n")
    jobs = read_trace(path)
    assert jobs.preemptible.tolist() == [True, False, False, True]
    assert jobs.checkpoint_s.tolist() == [600, np.inf, np.inf, 600]
    assert jobs.restart_s.tolist() == [120, 0, 7, 0]


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("maybe,1,1", "line 2, column preemptible: 'maybe' should be true or false"),
        ("true,-1,1", "line 2, column checkpoint_s: '-1' is negative"),
        ("true,x,1", "line 2, column checkpoint_s: 'x' is not a number"),
        ("true,1,inf", "column restart_s, row 0: inf should be 0 s or more, and finite"),
    ],
)
def test_a_cell_that_cannot_be_is_named(row, sentence, tmp_path):
    path = tmp_path / "own.csv"
    path.write_text(f"submit_s,duration_s,gpus,preemptible,checkpoint_s,restart_s\n0,9,1,{row}\n")
    with pytest.raises(InputError, match=sentence):
        read_trace(path)
