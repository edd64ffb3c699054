"""Numbers that can be trusted, logged and printed."""

import pytest
import torch
from tencache_cases import Case, make, train, wrap
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter


@pytest.fixture
def trained():
    model, optimizer = make(Case())
    cached = wrap(model, optimizer)
    train(Case(), model, optimizer, 6)
    yield cached
    cached.unwrap()


def test_bytes_are_those_of_the_plan_and_near_their_floor(trained):
    trained.engine.device_copies.settle()  # bytes on their way when a step ends count when they arrive
    before = trained.stats()
    train(Case(), trained.model, trained.optimizer, 4)
    trained.engine.device_copies.settle()
    after = trained.stats()
    assert after.up_bytes - before.up_bytes == pytest.approx(4 * trained.plan.up_bytes, rel=0.02)
    assert after.up_bytes - before.up_bytes <= 1.05 * 4 * trained.plan.up_floor_bytes
    assert after.down_bytes == after.down_floor_bytes == 10 * trained.trace.grad_bytes


def test_planned_steps_hit_and_the_profile_counts(trained):
    stats = trained.stats()
    assert stats.steps == 6
    assert stats.hit_rate > 0.9
    assert 0 < stats.ready_rate <= 1
    assert stats.demand_loads > 0
    assert stats.stall_s == pytest.approx(stats.load_stall_s + stats.gradient_stall_s + stats.file_stall_s)


def test_tensorboard_gets_every_number(trained, tmp_path):
    stats = trained.stats()
    with SummaryWriter(str(tmp_path)) as writer:
        stats.log(writer, step=6)
    events = EventAccumulator(str(tmp_path)).Reload()
    assert set(events.Tags()["scalars"]) == {f"tencache/{name}" for name in stats.as_dict()}
    assert events.Scalars("tencache/steps")[0].value == 6


def test_stats_print_themselves(trained):
    text = str(trained.stats())
    assert "hit" in text
    assert "floor" in text


def test_the_plan_and_trace_are_there_to_read(trained, tmp_path):
    assert trained.plan.trace.order == trained.trace.order
    assert "load <- evict" in str(trained.plan)
    trained.trace.save(tmp_path / "trace.json")
    compute = sum(op.compute_s for op in trained.trace.ops)
    assert 0 < compute < 5


def test_nothing_is_planned_before_the_first_step():
    model, optimizer = make(Case())
    cached = wrap(model, optimizer)
    assert cached.plan is None
    assert cached.trace is None
    assert torch.is_tensor(model(torch.arange(12).view(1, 12)))
    cached.unwrap()


def test_the_trace_has_durations_and_gradients_after_an_odd_step_too():
    """Steps that repeat a settled plan are recorded without them; an odd one among them must not become the trace."""
    model, optimizer = make(Case())
    cached = wrap(model, optimizer)
    train(Case(), model, optimizer, 6)
    before = cached.trace
    train(Case(micro_batches=2), model, optimizer, 1)
    assert cached.trace == before
    train(Case(micro_batches=2), model, optimizer, 1)
    assert len(cached.trace.grads) == 2 * len(before.grads)
    cached.unwrap()
