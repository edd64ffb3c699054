"""A trace is a file that can be read again."""

import pytest
from plan_traces import layered

from tencache.plan.step_trace import StepTrace


def test_a_trace_is_saved_and_read_back(tmp_path):
    trace = layered(4)
    trace.save(tmp_path / "trace.json")
    assert StepTrace.load(tmp_path / "trace.json") == trace


def test_a_file_that_is_no_trace_is_refused(tmp_path):
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(ValueError, match="not a trace that tencache saved"):
        StepTrace.load(tmp_path / "other.json")
