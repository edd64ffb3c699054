"""The public interface: what `dir` and `help` show, and that nothing is imported before it is asked for."""

import inspect
import pydoc
import subprocess
import sys

import pytest

import rltune

FUNCTIONS = ["compare", "evaluate", "read_trace", "simulate"]


def test_dir_shows_the_public_interface_and_nothing_else():
    shown = [name for name in dir(rltune) if not name.startswith("_")]
    assert shown == sorted(rltune.__all__)
    assert {"Cluster", "Comparison", "Evaluation", "InputError", "Jobs", "Model", "Schedule", "trace"} < set(shown)
    assert set(FUNCTIONS) < set(shown)


def test_dir_and_import_load_nothing_heavy():
    look = "import sys, rltune; dir(rltune); print(sorted({'numpy', 'numba', 'polars', 'rich'} & sys.modules.keys()))"
    ran = subprocess.run([sys.executable, "-c", look], check=True, capture_output=True, text=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize("name", rltune.__all__)
def test_every_public_name_is_there(name):
    assert getattr(rltune, name) is not None


def test_another_name_is_not():
    with pytest.raises(AttributeError, match="no attribute 'simulat'"):
        _ = rltune.simulat


def test_help_shows_every_function_and_value():
    text = pydoc.plain(pydoc.render_doc(rltune))
    assert all(f"{name}(" in text for name in FUNCTIONS)
    assert all(
        f"class {name}(" in text for name in ("Cluster", "Comparison", "Evaluation", "Jobs", "Model", "Schedule")
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_docstring_tells_every_argument_the_result_and_an_example(name):
    function = getattr(rltune, name)
    assert inspect.isfunction(function)
    text = inspect.getdoc(function)
    for argument in inspect.signature(function).parameters:
        assert f"\n    {argument}: " in text
    assert "\nReturns " in text
    assert f"rltune.{name}(" in text


def test_the_module_of_traces_stays_one():
    assert inspect.ismodule(rltune.trace)
    assert rltune.read_trace is rltune.trace.read_trace


def test_the_command_lines_words_for_windows_and_lists_work_in_python():
    """What one learnt in the shell is understood here."""
    jobs, cluster = rltune.trace.synthesise("philly", 400, seed=1), rltune.Cluster.uniform(2, 8)
    made = rltune.compare(jobs, cluster, "fcfs,saf", "none,easy", windows="3x64", estimator="oracle")
    assert (len(made.windows), [s.label for s in made.standings]) == (3, ["fcfs", "fcfs + easy", "saf", "saf + easy"])
    judged = rltune.evaluate(jobs, cluster, ["saf"], windows="16:every=8:contended=0", holdout=0.4, estimator="oracle")
    assert judged.test.size == 16


def test_rooms_are_there_without_another_import():
    assert rltune.policy.QueueView is rltune.policy.base.QueueView
    assert rltune.evaluation.compare is rltune.compare
