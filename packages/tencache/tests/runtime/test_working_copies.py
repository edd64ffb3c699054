"""Under autocast half the bytes move, and the bits are those of the unwrapped autocast run."""

import contextlib

import pytest
import torch
from tencache_cases import same_state, same_tensors, shows_kept, wrap
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import tencache
from tencache.runtime.tensors import gradients

WIDTH = 32
LAYERS = 6
STEPS = 6


class Net(nn.Module):
    """Linear layers whose weights are used as `use` says; the others are always cast."""

    def __init__(self, use: str = "cast") -> None:
        super().__init__()
        self.use = use
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))
        if use == "shared":
            self.layers[3].weight = self.layers[0].weight

    def forward(self, x):
        for index, layer in enumerate(self.layers):
            x = self._run(index, layer, x) + x
        return x.float().square().mean()

    def _run(self, index, layer, x):
        if self.use in {"reentrant", "nonreentrant"} and torch.is_grad_enabled() and x.requires_grad:
            return checkpoint(layer, x, use_reentrant=self.use == "reentrant")
        if self.use == "twice":
            return torch.tanh(layer(torch.tanh(layer(x))))
        if self.use == "mixed" and index % 2:
            return torch.tanh(layer(x)) + layer.weight.sum() * 0.01
        if self.use == "sometimes" and index == 1 and (int(x.detach().sum() * 1e4) % 2):
            return torch.tanh(layer(x)) + layer.weight.mean()
        if self.use == "explicit" and index % 2:
            return torch.tanh(x.to(torch.bfloat16) @ layer.weight.to(torch.bfloat16))
        if self.use == "transposed" and index % 2:
            return torch.tanh(x @ layer.weight.T)
        if self.use == "einsum" and index % 2:
            return torch.tanh(torch.einsum("ij,jk->ik", x, torch.einsum("ij->ij", layer.weight)))
        if self.use == "disabled" and index % 2:
            with torch.autocast("cpu", enabled=False):
                return torch.tanh(layer(x.float()))
        if self.use == "no_grad" and index % 2:
            with torch.no_grad():
                x = layer(x) + x
            return torch.tanh(functional.linear(x, self.layers[0].weight))
        return torch.tanh(layer(x))


@pytest.fixture(autouse=True)
def _weights_are_large(monkeypatch):
    """As in a model of many megabytes: a weight's gradient is a copy of its own."""
    monkeypatch.setattr(gradients, "SMALL_BYTES", 512)


def make(use="cast", kind=torch.optim.AdamW, frozen=False):
    torch.manual_seed(0)
    model = Net(use)
    if frozen:
        model.layers[:3].requires_grad_(False)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return model, kind(trained, lr=1e-2)


def batch(seed):
    return torch.randn(5, WIDTH, generator=torch.Generator().manual_seed(seed))


def casting(dtype=torch.bfloat16, **options):
    return torch.autocast("cpu", dtype, **options)


def plain(model, optimizer, step):
    with casting():
        loss = model(batch(step))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return [loss]


def uncached(model, optimizer, step):
    with casting(cache_enabled=False):
        loss = model(batch(step))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return [loss]


def accumulated(model, optimizer, step):
    losses = []
    for part in range(3):
        with casting():
            losses.append(model(batch(3 * step + part)))
        losses[-1].backward()
    optimizer.step()
    optimizer.zero_grad()
    return losses


def two_forwards(model, optimizer, step):
    """Two contexts in one backward: gradients are added in fp32; two forwards in one context: in bf16."""
    with casting():
        loss = model(batch(step)) + model(batch(step + 1))
    with casting():
        loss = loss + model(batch(step + 2))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return [loss]


def backward_twice(model, optimizer, step):
    with casting():
        loss = model(batch(step))
    loss.backward(retain_graph=True)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return [loss]


def graphs_of_two_steps(model, optimizer, step):
    """One backward of a graph from the first, profiled forward and one from the second."""
    with casting():
        first = model(batch(step))
    with torch.no_grad(), casting():
        model(batch(step))
    with casting():
        second = model(batch(step + 1))
    (first + second).backward()
    optimizer.step()
    optimizer.zero_grad()
    return [first, second]


def evaluated(model, optimizer, step):
    losses = []
    for context in (contextlib.nullcontext(), casting(), casting()):
        with torch.no_grad() if step % 2 else torch.inference_mode(), context:
            losses.append(model(batch(step)).clone())
    return losses + plain(model, optimizer, step)


def evaluated_in_the_same_autocast(model, optimizer, step):
    with casting():
        loss = model(batch(step))
        with torch.no_grad():
            other = model(batch(step + 1))
        loss = loss + model(batch(step + 2))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return [loss, other]


def now_and_then(model, optimizer, step):
    if step % 3:
        return plain(model, optimizer, step)
    loss = model(batch(step))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return [loss]


def stepped_inside(model, optimizer, step):
    """Autocast goes on with its casts of the old weights."""
    with casting():
        losses = [model(batch(step))]
        losses[-1].backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(model(batch(step)))
        losses[-1].backward()
    optimizer.step()
    optimizer.zero_grad()
    return losses


def written_inside(model, optimizer, step):
    with casting():
        losses = [model(batch(step))]
        losses[-1].backward()
        with torch.no_grad():
            model.layers[0].weight.mul_(0.9)
            model.layers[1].weight.data.add_(0.01)
            model.layers[2].weight.detach().numpy()[:] *= 0.9
        losses.append(model(batch(step)))
    with torch.no_grad():
        model.layers[4].bias.fill_(0.1)
    with casting():
        losses.append(model(batch(step)))
    losses[-1].backward()
    optimizer.step()
    optimizer.zero_grad()
    return losses


def scaled(model, optimizer, step):
    scaler = vars(model).setdefault("scaler", torch.amp.GradScaler("cpu", init_scale=2.0**14, growth_interval=2))
    with casting(torch.float16):
        loss = model(batch(step))
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    return [loss, norm, torch.tensor(scaler.get_scale())]


def other_type(model, optimizer, step):
    with casting(torch.float16 if step % 3 == 2 else torch.bfloat16):
        loss = model(batch(step))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return [loss]


def frozen_later(model, optimizer, step):
    model.layers[2].requires_grad_(step % 2 == 0)
    return plain(model, optimizer, step)


def view_kept(model, optimizer, step):
    kept = model.layers[1].weight.detach()
    losses = plain(model, optimizer, step)
    kept.mul_(0.99)
    return losses + plain(model, optimizer, step)


LOOPS = (
    plain,
    uncached,
    accumulated,
    two_forwards,
    backward_twice,
    graphs_of_two_steps,
    evaluated,
    evaluated_in_the_same_autocast,
    now_and_then,
    stepped_inside,
    written_inside,
    scaled,
    other_type,
    frozen_later,
    view_kept,
)
USES = (
    "cast",
    "shared",
    "twice",
    "mixed",
    "sometimes",
    "explicit",
    "transposed",
    "einsum",
    "disabled",
    "no_grad",
    "reentrant",
    "nonreentrant",
)


def run(model, optimizer, loop):
    seen = []
    for step in range(STEPS):
        seen += [value.detach().clone() for value in loop(model, optimizer, step)]
        seen += [parameter.grad for parameter in model.parameters()]
    return seen


def assert_same(loop, use, budget="45%", kind=torch.optim.AdamW, frozen=False, **options):
    model, optimizer = make(use, kind, frozen)
    expected = run(model, optimizer, loop)
    other, other_optimizer = make(use, kind, frozen)
    cached = wrap(other, other_optimizer, budget=budget, link=None, **options)
    assert same_tensors(run(other, other_optimizer, loop), expected)
    stats, plan = cached.stats(), cached.plan
    cached.unwrap()
    assert same_tensors(other.state_dict(), model.state_dict())
    assert same_state(other_optimizer, optimizer)
    return stats, plan


@shows_kept("autocast to bf16 or fp16 of an fp32 model, whose weights then move as halves")
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("loop", LOOPS)
def test_bits_are_those_of_the_unwrapped_run(loop, use):
    assert_same(loop, use, verify=loop is accumulated)


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.LBFGS])
def test_bits_with_other_optimizers(kind):
    def closed(model, optimizer, step):
        def closure():
            optimizer.zero_grad()
            with casting():
                loss = model(batch(step))
            loss.backward()
            return loss

        return [optimizer.step(closure)]

    assert_same(closed, "cast", kind=kind)


@pytest.mark.parametrize("loop", [plain, accumulated, evaluated, scaled])
def test_bits_with_parameters_in_the_file(loop, tmp_path):
    assert_same(loop, "cast", host=110_000, nvme=tmp_path)
    assert_same(loop, "shared", host=110_000, nvme=tmp_path, verify=True)


@pytest.mark.parametrize("loop", [plain, two_forwards, evaluated])
def test_bits_of_a_partly_frozen_model(loop):
    assert_same(loop, "cast", frozen=True)


def moved(use, steps=4, **options):
    """The bytes up and down of one settled step, and the plan."""
    model, optimizer = make(use)
    cached = wrap(model, optimizer, link=None, **{"budget": "45%", **options})
    for step in range(steps):
        plain(model, optimizer, step)
    cached.engine.device_copies.settle()
    before = cached.stats()
    for step in range(steps):
        plain(model, optimizer, step)
    cached.engine.device_copies.settle()
    after, plan = cached.stats(), cached.plan
    cached.unwrap()
    return (after.up_bytes - before.up_bytes) / steps, (after.down_bytes - before.down_bytes) / steps, plan


def test_half_the_bytes_move_up_and_the_plan_and_its_floor_say_so():
    up, _, plan = moved("cast", budget="30%")
    rival, _, other = moved("cast", budget="30%", policy="zero3")
    assert up == plan.up_bytes
    # In half the bytes more of the model stays on the device from forward to backward: less than half moves.
    assert up <= 0.55 * rival
    assert plan.up_floor_bytes <= 0.55 * other.up_floor_bytes
    assert plan.trace.parameter_bytes == other.trace.parameter_bytes - LAYERS * WIDTH * WIDTH * 2
    assert max(load.bytes for load in plan.loads) == WIDTH * WIDTH * 2


def test_gradients_of_casts_come_down_as_halves():
    _, down, plan = moved("cast")
    _, rival, _ = moved("cast", policy="zero3")
    # Biases are small: they are collected, and stay as they are.
    assert down == plan.trace.grad_bytes
    assert down == rival - LAYERS * WIDTH * WIDTH * 2


def test_a_gradient_that_was_added_up_in_fp32_comes_down_in_fp32():
    _, down, _ = moved("mixed")
    _, rival, _ = moved("mixed", policy="zero3")
    assert down == rival - LAYERS // 2 * WIDTH * WIDTH * 2


def test_a_weight_that_one_use_does_not_cast_moves_whole_and_only_whole():
    _, _, plan = moved("mixed")
    sizes = {plan.trace.units[load.unit].name: load.bytes for load in plan.loads}
    assert sizes["layers.1.weight"] == 4 * WIDTH * WIDTH
    assert sizes["layers.0.weight as half"] == 2 * WIDTH * WIDTH
    assert "layers.1.weight as half" not in sizes
    assert "layers.0.weight" not in sizes


def test_the_cast_that_autocast_keeps_is_the_working_copy():
    """No second copy of a weight outside the budget: what autocast keeps lies in the arena."""
    model, optimizer = make()
    cached = wrap(model, optimizer, budget="45%")
    for step in range(3):
        plain(model, optimizer, step)
    arena = cached.arena
    with casting():
        loss = model(batch(0))
        casts = [entry.cast for entry in cached.entries if entry.parameter.dim() == 2]
        assert all(cast is not None and cast.dtype is torch.bfloat16 for cast in casts)
        assert all(arena.base <= cast.data_ptr() < arena.base + arena.size_bytes for cast in casts)
    loss.backward()
    cached.unwrap()


def test_autocast_that_is_open_keeps_its_casts_after_unwrap():
    model, optimizer = make()
    cached = wrap(model, optimizer, budget="45%")
    for step in range(3):
        plain(model, optimizer, step)
    with casting():
        expected = model(batch(0))
        cached.unwrap()
        assert same_tensors(model(batch(0)), expected)


def test_a_write_to_what_einsum_made_of_a_cast_is_refused():
    """Unwrapped it would change the cast that autocast keeps; here that is the working copy."""
    model, optimizer = make()
    cached = wrap(model, optimizer, budget="45%")
    for step in range(3):
        plain(model, optimizer, step)
    weight = model.layers[0].weight
    model.layers[0].forward = lambda x: x @ torch.einsum("ij->ji", weight).mul_(2)
    with casting(), torch.no_grad(), pytest.raises(tencache.RefusedError, match="written to while the model runs"):
        model(batch(0))
    del model.layers[0].forward
    cached.unwrap()


def test_order_does_not_change_once_settled():
    stats, plan = assert_same(plain, "cast")
    assert stats.order_changes == 0
    assert any(unit.name.endswith("as half") and unit.bytes for unit in plan.trace.units)


@pytest.mark.parametrize("staged", [False, True])
def test_a_working_copy_on_its_way_is_no_view_that_user_code_holds(staged):
    """Uploads read the parameter on a thread of their own, at any moment."""
    model, optimizer = make()
    cached = wrap(model, optimizer, budget="45%", verify=staged)
    for step in range(3):
        plain(model, optimizer, step)
    entry = next(entry for entry in cached.entries if entry.half is not None)
    source, release = cached.masters.lease(entry.half)
    data = source()
    assert data.nbytes >= WIDTH * WIDTH * (2 if staged else 4)
    assert not cached.masters.aliased(entry.unit)
    if release is not None:
        release()
    cached.unwrap()
