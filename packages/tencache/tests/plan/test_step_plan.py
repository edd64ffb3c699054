"""A plan prints itself."""

from plan_traces import KIB, layered

from tencache.plan.planner import plan_ahead


def test_a_plan_prints_its_rows():
    text = plan_ahead(layered(3), 2 * 64 * KIB).table(limit=2)
    assert "layer0 <- -" in text
    assert text.endswith("rows more")
