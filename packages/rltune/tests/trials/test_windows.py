import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltune.errors import InputError
from rltune.evaluation import Steady, Window, WindowSpec, parse_windows
from rltune.jobs import Jobs
from rltune.trials.windows import SlidingSpec, choose_windows, parse_counted, parse_sliding


def trace(n):
    return Jobs.from_arrays(np.arange(n) * 10.0, 5, 1)


def no_wait(_):
    return 0.0


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("20x1024", WindowSpec(20, 1024, seed=7)),
        (" 3X8 ", WindowSpec(3, 8, seed=7)),
        ("20x1024:random", WindowSpec(20, 1024, "random", seed=7)),
        ("5x64:contended=600:random", WindowSpec(5, 64, "random", 600.0, seed=7)),
        ("1024", SlidingSpec(1024, 64)),
        ("1024:every=32", SlidingSpec(1024, 32)),
        ("1024:contended=600:every=1", SlidingSpec(1024, 1, 600.0)),
        ("whole", None),
        ("steady", Steady(0.2)),
        ("steady:0.3", Steady(0.3)),
    ],
)
def test_specifications_are_read(text, spec):
    assert parse_windows(text, seed=7) == spec


@pytest.mark.parametrize(
    "text",
    [
        "",
        "20:every=x",
        "20:every=0",
        "20:every=1.5",
        "0",
        "20:random",
        "20x5:every=2",
        "20x10:contended=-1",
        "20x",
        "x5",
        "20x10:odd",
        "20x10:contended=much",
        "0x5",
        "5x0",
        "steady:1.5",
    ],
)
def test_a_wrong_specification_is_the_users_to_mend(text):
    with pytest.raises(InputError):
        parse_windows(text)


def test_what_the_text_leaves_out_is_the_command_s_to_say():
    assert parse_windows("5x64", min_wait_s=600.0) == WindowSpec(5, 64, min_wait_s=600.0)
    assert parse_windows("64:contended=0", min_wait_s=600.0) == SlidingSpec(64)


def test_a_command_takes_only_the_windows_that_it_can_use():
    assert parse_sliding("64:every=8", min_wait_s=5.0) == SlidingSpec(64, 8, 5.0)
    assert parse_counted("4x64", min_wait_s=5.0) == WindowSpec(4, 64, min_wait_s=5.0)
    for refused in ("whole", "steady", "4x64"):
        with pytest.raises(InputError, match="every=64"):
            parse_sliding(refused)
    for refused in ("whole", "steady", "64", "4x64:random"):
        with pytest.raises(InputError, match="100x256"):
            parse_counted(refused)


def test_sliding_windows_start_at_every_so_manyth_job():
    windows, notes = choose_windows(trace(100), SlidingSpec(10, 45), no_wait)
    assert windows == (Window(0, 10), Window(45, 10), Window(90, 10))
    assert notes == ()
    assert "overlap" in choose_windows(trace(20), SlidingSpec(10, 5), no_wait)[1][0]


def test_sliding_windows_can_be_only_the_contended_ones():
    spec = SlidingSpec(10, 10, min_wait_s=60)
    windows, notes = choose_windows(trace(100), spec, lambda w: 100.0 * (w.first >= 70))
    assert [w.first for w in windows] == [70, 80, 90]
    assert "3 of 10 windows looked at were contended" in notes[0]
    with pytest.raises(InputError, match="no window of 10 jobs"):
        choose_windows(trace(100), spec, no_wait)


def test_even_windows_span_the_trace():
    windows, notes = choose_windows(trace(100), WindowSpec(4, 10), no_wait)
    assert windows == (Window(0, 10), Window(30, 10), Window(60, 10), Window(90, 10))
    assert notes == ()


@given(st.integers(1, 60), st.integers(1, 40), st.integers(0, 9), st.sampled_from(["even", "random"]))
def test_windows_are_inside_distinct_and_the_same_for_a_seed(count, size, seed, choice):
    spec = WindowSpec(count, size, choice, seed=seed)
    windows, _ = choose_windows(trace(50), spec, no_wait)
    assert windows == choose_windows(trace(50), spec, no_wait)[0]
    assert len(set(windows)) == len(windows) == min(count, 50 - size + 1)
    assert all(w.first >= 0 and w.first + w.count <= 50 and w.count == size for w in windows)


def test_overlap_is_said():
    _, notes = choose_windows(trace(20), WindowSpec(10, 8), no_wait)
    assert any("overlap" in note for note in notes)


def test_only_contended_windows_are_kept():
    """FCFS waits only in the second half."""
    windows, notes = choose_windows(trace(100), WindowSpec(3, 10, min_wait_s=60), lambda w: 100.0 * (w.first >= 50))
    assert len(windows) == 3
    assert all(w.first >= 50 for w in windows)
    assert "5 of 10" in notes[0]


def test_a_trace_without_contention_is_said():
    with pytest.raises(InputError, match="most contended waits 0 s"):
        choose_windows(trace(100), WindowSpec(3, 10, min_wait_s=60), no_wait)


def test_steady_state_leaves_the_warm_up_out():
    (window,), _ = choose_windows(trace(101), Steady(0.2, 0.1), no_wait)
    assert window == Window(0, 101, (200.0, 900.0))


def test_what_cannot_be_sampled_is_said():
    with pytest.raises(InputError, match="does not fit"):
        choose_windows(trace(5), WindowSpec(1, 10), no_wait)
    with pytest.raises(InputError, match="no job"):
        choose_windows(trace(0), None, no_wait)
