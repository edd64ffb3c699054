"""Wrapping keeps the model what it is, and unwrapping gives it back."""

import gc
import weakref

import pytest
import torch
from tencache_cases import Case, make, same_state, same_tensors, train, wrap
from torch import nn

from tencache.bench.gpt import batches


def test_identity_names_and_shapes_stay():
    model, optimizer = make(Case())
    before = [(name, id(p), p.shape, p.requires_grad) for name, p in model.named_parameters()]
    cached = wrap(model, optimizer)
    assert [(name, id(p), p.shape, p.requires_grad) for name, p in model.named_parameters()] == before
    assert all(isinstance(p, nn.Parameter) for p in model.parameters())
    cached.unwrap()


def test_unwrap_restores_everything_and_training_goes_on():
    reference, reference_optimizer = make(Case())
    expected = train(Case(), reference, reference_optimizer, 6)
    model, optimizer = make(Case())
    cached = wrap(model, optimizer)
    losses = train(Case(), model, optimizer, 3)
    assert cached.unwrap() is model
    assert all(type(p) is nn.Parameter and not p.__dict__ for p in model.parameters())
    assert "step" not in optimizer.__dict__
    assert not model._forward_hooks
    assert not model._forward_pre_hooks
    case = Case(lengths=(12,))
    torch.manual_seed(1)
    rest = []
    for step in range(3, 6):
        tokens = batches(case.config, 1, size=2, length=12, seed=step)[0]
        loss = model(tokens)
        loss.backward()
        rest.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
    assert losses + rest == expected
    assert same_tensors(model.state_dict(), reference.state_dict())
    assert same_state(optimizer, reference_optimizer)


def test_gradients_survive_unwrapping():
    model, optimizer = make(Case())
    cached = wrap(model, optimizer)
    model(torch.arange(12).view(1, 12)).backward()
    grads = [p.grad.clone() for p in model.parameters()]
    cached.unwrap()
    assert all(torch.equal(p.grad, grad) for p, grad in zip(model.parameters(), grads, strict=True))


def test_a_model_without_an_optimizer_can_be_evaluated():
    model = make(Case())[0]
    tokens = torch.arange(24).view(2, 12)
    with torch.no_grad():
        expected = model(tokens)
        cached = wrap(model, None, budget="30%")
        assert all(torch.equal(model(tokens), expected) for _ in range(4))
    stats = cached.stats()
    assert stats.plans > 0
    assert stats.order_changes == 0
    cached.unwrap()


def test_steps_taken_by_hand_are_planned_too():
    runs = []
    for wrapped in (False, True):
        model = make(Case())[0]
        cached = wrap(model, None) if wrapped else None
        for step in range(6):
            loss = model(torch.arange(24).view(2, 12) + step)
            loss.backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.sub_(parameter.grad, alpha=0.1)
                    parameter.grad = None
            runs.append(loss.item())
        if cached is not None:
            stats = cached.stats()
            assert stats.plans > 0
            assert stats.order_changes == 0
            cached.unwrap()
    assert runs[:6] == runs[6:]


def test_evaluation_moves_the_fewest_bytes():
    """A loop over layers is where eviction by next use pays: LRU would load everything every time."""
    model = nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(10)))
    cached = wrap(model, None, budget="50%")
    x = torch.ones(1, 64)
    with torch.no_grad():
        for _ in range(4):
            model(x)
        before = cached.stats().up_bytes
        for _ in range(4):
            model(x)
    cached.link.up.close()
    moved = (cached.link.up.bytes_moved - before) / 4
    assert moved <= 0.75 * sum(p.nbytes for p in model.parameters())


class Tied(nn.Module):
    """Uses one weight in two ways, and another module's weight without calling it."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.mix = nn.MultiheadAttention(16, 2, batch_first=True)
        self.recur = nn.LSTM(16, 16, batch_first=True)
        self.table = nn.ParameterList([nn.Parameter(torch.ones(16)), nn.Parameter(torch.ones(16))])

    def forward(self, tokens):
        x = self.embed(tokens)
        x = self.mix(x, x, x, need_weights=False)[0]
        x = self.recur(x)[0] * torch.stack(list(self.table)).sum(0)
        return nn.functional.linear(x, self.embed.weight).logsumexp(-1).mean()


@pytest.mark.parametrize("budget", ["70%", "100%"])
def test_any_module_and_any_use_of_a_parameter(budget):
    runs = []
    for wrapped in (False, True):
        torch.manual_seed(0)
        model = Tied()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        cached = wrap(model, optimizer, budget=budget) if wrapped else None
        losses = []
        for step in range(5):
            loss = model(torch.arange(12).view(2, 6) + step)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        runs.append(losses)
        if cached is not None:
            cached.unwrap()
    assert runs[0] == runs[1]


def test_thawing_a_layer_on_the_way():
    runs = []
    for wrapped in (False, True):
        model, optimizer = make(Case())
        model.blocks[2].requires_grad_(False)
        cached = wrap(model, optimizer) if wrapped else None
        losses = train(Case(), model, optimizer, 3)
        model.blocks[2].requires_grad_(True)
        losses += train(Case(), model, optimizer, 3)
        runs.append(losses)
        if cached is not None:
            cached.unwrap()
    assert runs[0] == runs[1]


def test_parameters_added_to_the_optimizer_later_are_trained():
    runs = []
    for wrapped in (False, True):
        model, _ = make(Case())
        optimizer = torch.optim.AdamW(model.blocks.parameters(), lr=1e-2)
        cached = wrap(model, optimizer) if wrapped else None
        losses = train(Case(), model, optimizer, 2)
        optimizer.add_param_group({"params": list(model.head.parameters()), "lr": 1e-3})
        losses += train(Case(), model, optimizer, 3)
        runs.append(losses)
        if cached is not None:
            cached.unwrap()
    assert runs[0] == runs[1]


def test_offloading_hooks_of_others_still_see_activations():
    model, optimizer = make(Case())
    cached = wrap(model, optimizer)
    reference, reference_optimizer = make(Case())
    expected = train(Case(), reference, reference_optimizer, 3)
    with torch.autograd.graph.save_on_cpu():
        assert train(Case(), model, optimizer, 3) == expected
    cached.unwrap()


def test_descriptions_do_not_load():
    model, optimizer = make(Case())
    cached = wrap(model, optimizer)
    weight = model.head.weight
    assert (weight.shape, weight.dim(), weight.numel(), weight.dtype) == (
        torch.Size([96, 32]),
        2,
        96 * 32,
        torch.float32,
    )
    assert weight.device == torch.device("cpu")
    assert "Parameter" in repr(weight)
    assert (
        weight.detach().sum()
        == sum(weight.tolist()[row][column] for row in range(0) for column in ()) + weight.data.sum()
    )
    assert cached.stats().up_bytes == 0
    cached.unwrap()


def test_unwrapping_gives_the_memory_back_at_once():
    """Without waiting for the garbage collector: a sweep over budgets must not pile up arenas."""
    model, optimizer = make(Case())
    gc.disable()
    try:
        cached = wrap(model, optimizer)
        train(Case(), model, optimizer, 2)
        pieces = [weakref.ref(cached.arena._memory), *(weakref.ref(mapping) for mapping, _ in cached.pool._mappings)]
        cached.unwrap()
        optimizer.zero_grad()
        assert [piece() for piece in pieces] == [None] * len(pieces)
    finally:
        gc.enable()


def test_unwrapping_twice_is_unwrapping_once():
    model, optimizer = make(Case())
    cached = wrap(model, optimizer)
    assert cached.unwrap() is cached.unwrap() is model


class WithEmpty(nn.Module):
    """Has a parameter without elements, as code that builds layers of any size makes them."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.empty = nn.Parameter(torch.empty(0, 8))
        self.last = nn.Linear(8, 8)

    def forward(self, x):
        return self.last(torch.cat([self.first(x), self.empty])).square().mean()


@pytest.mark.parametrize("options", [{}, {"verify": True}, {"nvme": True}])
def test_a_parameter_without_elements_is_trained_along(options, tmp_path):
    if "nvme" in options:
        options = {"nvme": tmp_path, "host": "8KiB"}
    runs = []
    for wrapped in (False, True):
        torch.manual_seed(0)
        model = WithEmpty()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        cached = wrap(model, optimizer, budget="1KiB", **options) if wrapped else None
        losses = []
        for _ in range(4):
            loss = model(torch.ones(2, 8))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        if cached is not None:
            cached.unwrap()
        runs.append((losses, model.state_dict()))
    assert runs[0][0] == runs[1][0]
    assert same_tensors(runs[0][1], runs[1][1])
