"""A part of the optimizer state stays on the device, if the budget has room."""

import tempfile

import pytest
import torch
from tencache_cases import Case, half_in_file, make, same_state, same_tensors, shows_kept, train, wrap
from torch import nn

import tencache
from tencache.plan.kept_state import choices, kept_bytes
from tencache.runtime.cycle.plan_book import PlanBook
from tencache.runtime.optimizer import known_optimizers

SLOW = "50MB/s"


@pytest.fixture
def most(monkeypatch):
    """Keep as much as there is room for, whatever the replay of this machine's times says."""

    def choose(plans, offer):
        trace = plans.traces["train"]
        return frozenset(unit for one in max(choices(trace, offer), key=kept_bytes) for unit in one.units)

    monkeypatch.setattr(PlanBook, "choose_kept", choose)


def both(case, steps, *, budget="220%", after=None, **options):
    """Train unwrapped and wrapped; return both, and the statistics."""
    model, optimizer = make(case)
    losses = train(case, model, optimizer, steps, after=lambda step: after and after(step, model, optimizer))
    twin, its = make(case)
    cached = wrap(twin, its, budget=budget, link=SLOW, **options)
    found = train(case, twin, its, steps, after=lambda step: after and after(step, twin, its))
    stats = cached.stats()
    assert same_tensors(twin.state_dict(), model.state_dict())
    assert same_state(its, optimizer)
    cached.unwrap()
    assert losses == found
    assert same_tensors(twin.state_dict(), model.state_dict())
    assert same_state(its, optimizer)
    return stats


@pytest.mark.usefixtures("most")
@shows_kept("a part of the optimizer state that stays on the device, where the budget has room for it")
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (torch.optim.AdamW, {"lr": 1e-2}),
        (torch.optim.AdamW, {"lr": 1e-2, "fused": True}),
        (torch.optim.AdamW, {"lr": 1e-2, "foreach": True, "amsgrad": True}),
        (torch.optim.SGD, {"lr": 1e-1, "momentum": 0.9}),
        (torch.optim.Adagrad, {"lr": 1e-2}),
        (torch.optim.Rprop, {"lr": 1e-2}),
    ],
)
def test_every_bit_is_that_of_the_unwrapped_run(kind, options):
    stats = both(Case(optimizer=kind, options=options), 6)
    assert not stats.resident
    assert 0 < stats.device_kept_bytes < stats.device_peak_bytes <= stats.device_budget_bytes
    assert "stays" in str(stats)


@pytest.mark.usefixtures("most")
@pytest.mark.parametrize(
    "case",
    [
        Case(autocast=True),
        Case(clip=0.1, micro_batches=2, evaluate_every=2),
        Case(frozen=True),
        Case(lengths=(12, 7)),
    ],
    ids=["autocast", "clipping", "adapters", "lengths"],
)
def test_whatever_the_loop_does(case):
    assert both(case, 7).device_kept_bytes


@pytest.mark.usefixtures("most")
@pytest.mark.parametrize("verify", [False, True])
def test_with_late_and_early_updates_beside(monkeypatch, verify):
    monkeypatch.setattr(known_optimizers, "WORTH_BYTES", 0)
    stats = both(Case(), 8, verify=verify)
    assert stats.device_kept_bytes
    assert stats.late_updates + stats.early_updates > 0


@pytest.mark.usefixtures("most")
def test_state_in_the_file_comes_back_to_stay_on_the_device():
    options = half_in_file(make(Case())[0])
    stats = both(Case(), 6, **options)
    assert stats.device_kept_bytes
    alone = both(Case(), 6, budget="100%", **options)
    assert stats.state_in_file_bytes < alone.state_in_file_bytes


def test_the_replay_keeps_state_where_the_link_is_slow():
    model, optimizer = make(Case())
    cached = wrap(model, optimizer, budget="220%", link="2MB/s")
    train(Case(), model, optimizer, 2)
    assert cached.stats().device_kept_bytes
    cached.unwrap()


@pytest.mark.usefixtures("most")
def test_what_is_kept_moves_no_more():
    moved = {}
    for budget in ("100%", "220%"):
        model, optimizer = make(Case())
        cached = wrap(model, optimizer, budget=budget, link=SLOW)
        train(Case(), model, optimizer, 6)
        before = cached.stats()
        train(Case(), model, optimizer, 1)
        after = cached.stats()
        moved[budget] = after.up_bytes - before.up_bytes, after.down_bytes - before.down_bytes
        cached.unwrap()
    assert all(less < 0.75 * more for less, more in zip(moved["220%"], moved["100%"], strict=True))


@pytest.mark.usefixtures("most")
def test_checkpoints_are_saved_and_loaded_as_if_nothing_were_wrapped():
    def reload(step, model, optimizer):
        if step == 4:
            with tempfile.TemporaryFile() as file:
                torch.save((model.state_dict(), optimizer.state_dict()), file)
                file.seek(0)
                one, two = torch.load(file)
            for parameter in model.parameters():
                parameter.data.zero_()
            model.load_state_dict(one)
            optimizer.load_state_dict(two)

    assert both(Case(), 8, after=reload).device_kept_bytes


@pytest.mark.usefixtures("most")
def test_what_is_kept_can_be_written_read_frozen_and_hooked_as_any_parameter():
    seen = []

    def meddle(step, model, _):
        if step == 3:
            weight = model.blocks[0].up.weight
            weight.register_hook(lambda gradient: gradient * 2)
            with torch.no_grad():
                model.blocks[1].up.weight.mul_(0.5)
            model.blocks[2].up.weight.data = model.blocks[2].up.weight.data.clone() * 2
            model.blocks[3].up.weight.requires_grad_(False)
        seen.append(model.blocks[0].up.weight.sum().item())

    assert both(Case(), 7, after=meddle).device_kept_bytes
    assert seen[:7] == seen[7:]


@pytest.mark.usefixtures("most")
def test_a_view_that_user_code_holds_keeps_its_parameter_where_it_is():
    views = []

    def look(step, model, _):
        if step == 0:
            views.append(model.blocks[0].up.weight.detach())

    both(Case(), 6, budget="390%", after=look)
    model, optimizer = make(Case())
    cached = wrap(model, optimizer, budget="390%", link=SLOW)
    view = model.blocks[0].up.weight.detach()
    train(Case(), model, optimizer, 6)
    assert type(model.blocks[0].up.weight) is not nn.Parameter
    assert type(model.blocks[1].up.weight) is nn.Parameter
    assert torch.equal(view, model.blocks[0].up.weight)
    cached.unwrap()


@pytest.mark.usefixtures("most")
def test_a_graph_from_before_still_finds_its_parameters():
    """Its gradients are those of the values of then where nothing was updated, and an error where it was."""
    results = []
    for wrapped in (False, True):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        cached = tencache.wrap(model, optimizer, budget="250%", link=SLOW) if wrapped else None
        x = torch.ones(2, 64)
        for _ in range(2):
            old = model(x).sum()
            old.backward(retain_graph=True)
            optimizer.step()
        with pytest.raises(RuntimeError, match="modified by an inplace"):
            old.backward()
        del old
        for _ in range(3):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
        results.append([parameter.detach().clone() for parameter in model.parameters()])
        if cached is not None:
            cached.unwrap()
    assert same_tensors(*results)
