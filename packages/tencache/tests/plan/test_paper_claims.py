"""10Cache's claims beside ours: what is set against what, worked out on small numbers."""

from dataclasses import replace

import pytest

from tencache.plan.paper_claims import (
    CaseCosts,
    ReplayCase,
    cases,
    claim_rows,
    claims,
    device_setting,
    replay_case,
    replay_ratio,
)
from tencache.plan.policy_costs import pinned_bytes
from tencache.plan.transformer_shapes import PRESETS, Setting, make_trace

SMALL = ReplayCase("gpt-46m", "35%", 64, "1GB/s")


@pytest.fixture(scope="module")
def costs() -> CaseCosts:
    return replay_case(SMALL)


def test_the_claims_are_those_of_the_abstract():
    assert {claim.key: claim.paper for claim in claims()} == {
        "speed": 2.0,
        "hit-rate": 86.6,
        "host-memory": 2.15,
        "device-memory": 1.33,
    }
    assert all(claim.differs.endswith(".") for claim in claims())


def test_the_quick_cases_are_some_of_all_and_hold_every_kind():
    """Nearly everything fits, hardly anything fits, and sizes that are no powers of two."""
    quick = cases(quick=True)
    assert set(quick) < set(cases(quick=False))
    assert {case.model for case in quick} == {"opt-6.7b", "opt-13b"}
    assert {case.budget for case in quick} >= {"1GiB", "11GiB"}


def test_ratios_are_above_one_where_the_plan_is_better(costs):
    ahead, lru = costs.steps["ahead"], costs.steps["lru"]
    assert replay_ratio(costs, "speed", "lru") == pytest.approx(lru.step_s / ahead.step_s)
    assert replay_ratio(costs, "speed", "lru") > 1
    assert replay_ratio(costs, "hit", "lru") == pytest.approx(ahead.hit_rate / lru.hit_rate)
    assert replay_ratio(costs, "ready", "zero3") == pytest.approx(ahead.ready_rate / costs.steps["zero3"].ready_rate)
    assert replay_ratio(costs, "device", "zero3") == pytest.approx(ahead.peak_bytes / costs.steps["zero3"].peak_bytes)


def test_pinned_memory_is_rounded_to_powers_of_two():
    trace = make_trace(PRESETS["gpt2"], Setting(tokens=64, context=64))
    exact, rounded = pinned_bytes(trace, rounded=False), pinned_bytes(trace, rounded=True)
    assert exact == trace.parameter_bytes + trace.grad_bytes
    assert exact < rounded < 2 * exact


def test_a_row_names_the_case_in_which_ours_is_best(costs):
    slower = {**costs.steps, "zero3": replace(costs.steps["zero3"], step_s=3 * costs.steps["ahead"].step_s)}
    other = replace(costs, case=replace(SMALL, tokens=128), steps=slower)
    row = claim_rows([costs, other], {})[0]
    assert (row.what, row.against, row.replay_case) == ("speed", "zero3", other.case.label)
    assert row.replay_most == pytest.approx(3)
    assert row.reached
    assert not claim_rows([costs], {})[0].reached


def test_what_is_measured_counts_too(costs):
    """The replay alone does not reach 2; a measurement that does is enough."""
    measured = {**costs.steps, "zero3": replace(costs.steps["zero3"], step_s=2.5 * costs.steps["ahead"].step_s)}
    rows = claim_rows([costs], {"1GB/s": measured})
    assert rows[0].device == {"1GB/s": pytest.approx(2.5)}
    assert rows[0].reached
    assert [row.device for row in rows if row.what in {"host", "device"}] == [{}, {}]


def test_a_quick_measurement_is_of_a_small_model():
    assert device_setting(quick=True)["rounds"] < device_setting(quick=False)["rounds"]
    assert "1M" in device_setting(quick=True)["model"]
    assert set(device_setting(quick=True)["links"]) < set(device_setting(quick=False)["links"])
    assert device_setting(quick=True)["budget"] == device_setting(quick=False)["budget"]
