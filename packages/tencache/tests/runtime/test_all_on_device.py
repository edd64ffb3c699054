"""When everything fits the device."""

import pytest
import torch
from tencache_cases import Case, make, same_state, same_tensors, train, wrap
from torch import nn

from tencache.runtime.all_on_device import needed_bytes


def test_nothing_moves_after_the_first_step():
    model, optimizer = make(Case())
    cached = wrap(model, optimizer, budget="500%")
    train(Case(), model, optimizer, 1)
    moved = cached.link.up.bytes_moved, cached.link.down.bytes_moved
    train(Case(), model, optimizer, 3)
    assert (cached.link.up.bytes_moved, cached.link.down.bytes_moved) == moved
    stats = cached.stats()
    assert stats.resident
    assert stats.steps == 4
    assert "all on the device" in str(stats)
    cached.unwrap()


def test_parameters_are_plain_again_and_gradients_outlive_the_move():
    model, optimizer = make(Case())
    cached = wrap(model, optimizer, budget="500%")
    kept = []

    def keep(_):
        kept.append([parameter.grad for parameter in model.parameters()])

    model(torch.zeros(1, 4, dtype=torch.long)).backward()
    before = [parameter.grad.clone() for parameter in model.parameters()]
    optimizer.step()
    keep(0)
    assert all(torch.equal(one, two) for one, two in zip(before, kept[0], strict=True))
    assert all(type(parameter) is nn.Parameter for parameter in model.parameters())
    cached.unwrap()


@pytest.mark.parametrize("options", [{"budget": "390%"}, {"budget": "500%", "verify": True}])
def test_a_smaller_budget_or_a_check_of_every_slot_keeps_the_plan(options):
    model, optimizer = make(Case())
    cached = wrap(model, optimizer, **options)
    train(Case(), model, optimizer, 3)
    assert not cached.stats().resident
    cached.unwrap()


def test_a_file_tier_keeps_the_plan(tmp_path):
    model, optimizer = make(Case())
    cached = wrap(model, optimizer, budget="500%", host="1500KiB", nvme=tmp_path)
    train(Case(), model, optimizer, 2)
    assert not cached.stats().resident
    cached.unwrap()


def test_learning_rate_schedules_closures_and_step_hooks_go_on():
    runs = []
    for wrapped in (False, True):
        model, optimizer = make(Case())
        cached = wrap(model, optimizer, budget="500%") if wrapped else None
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        calls = []
        optimizer.register_step_post_hook(lambda *_, calls=calls: calls.append(1))
        train(Case(), model, optimizer, 4, after=lambda _, schedule=schedule: schedule.step())

        def closure(model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = model(torch.ones(1, 5, dtype=torch.long))
            loss.backward()
            return loss

        loss = optimizer.step(closure).item()
        assert len(calls) == 5
        if cached is not None:
            cached.unwrap()
        runs.append((loss, model, optimizer))
    (loss, reference, reference_optimizer), (wrapped_loss, model, optimizer) = runs
    assert loss == wrapped_loss
    assert same_tensors(model.state_dict(), reference.state_dict())
    assert same_state(optimizer, reference_optimizer)


def test_frozen_parameters_count_as_if_they_were_trained():
    """They may be thawed later, and the budget must still hold."""
    model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False))
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD(model[1].parameters(), lr=0.1, momentum=0.9)
    model(torch.ones(1, 8)).sum().backward()
    optimizer.step()
    assert needed_bytes(list(model.parameters()), optimizer) == 3 * 2 * 8 * 8 * 4
