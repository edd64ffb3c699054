"""Programs that were once wrong without a word: each is now the unwrapped run bit by bit, or refused."""

import contextlib
import os
import tempfile
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from tencache_cases import LINK, same_state, same_tensors, shows_kept, shows_refused
from torch import nn
from torch.autograd.graph import save_on_cpu
from torch.nn import functional
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

import tencache
from tencache import CorruptedError, RefusedError

WIDTH = 32
LAYERS = 8


class Layered(nn.Module):
    """Layers that each make something of their weight before they use it."""

    def __init__(self, through: Callable = lambda weight, _: weight):
        super().__init__()
        self.through = through
        self.weights = nn.ParameterList(nn.Parameter(torch.randn(WIDTH, WIDTH) / 6) for _ in range(LAYERS))

    def forward(self, x):
        # All are made first, so that each is used when others have taken its place.
        made = [self.through(weight, x) for weight in self.weights]
        for weight in made:
            x = torch.tanh(x @ weight) + x
        return x.square().mean()


def batch(step: int) -> torch.Tensor:
    return torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(step))


def plain_loop(model, optimizer, steps=4):
    losses = []
    for step in range(steps):
        loss = model(batch(step))
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
    return losses


def assert_same(make_model, loop=plain_loop, optimizer=torch.optim.AdamW, budget="40%", **options):
    """Run a program unwrapped and wrapped, and compare every bit."""
    runs = []
    for wrapped in (False, True):
        torch.manual_seed(0)
        model = make_model()
        made = optimizer(model.parameters(), lr=1e-2)
        cached = tencache.wrap(model, made, budget=budget, link=LINK, **options) if wrapped else None
        torch.manual_seed(1)
        losses = loop(model, made)
        runs.append((losses, model, made))
        if cached is not None:
            cached.unwrap()
    (losses, model, made), (wrapped_losses, wrapped_model, wrapped_made) = runs
    assert wrapped_losses == losses
    assert same_tensors(wrapped_model.state_dict(), model.state_dict())
    assert same_state(wrapped_made, made)


RETURNS_ITS_ARGUMENT = {
    "to": lambda weight, x: weight.to(x.dtype),
    "to_device": lambda weight, x: weight.to(x.device, x.dtype),
    "float": lambda weight, _: weight.float(),
    "contiguous": lambda weight, _: weight.contiguous(),
    "type_as": lambda weight, x: weight.type_as(x),
    "type": lambda weight, x: weight.type(x.dtype),
    "dropout": lambda weight, _: functional.dropout(weight, 0.5, training=False),
    "atleast_2d": lambda weight, _: torch.atleast_2d([weight])[0],
    "requires_grad_": lambda weight, _: weight.requires_grad_(),
    "expand_as": lambda weight, _: weight.expand_as(weight),
    "in_list": lambda weight, _: torch.broadcast_tensors(weight, torch.zeros(WIDTH, WIDTH))[0],
}


@shows_kept("operations that may return their argument: `.to(x.dtype)`, `.contiguous()`, `.float()`, `.type_as(x)`")
@pytest.mark.parametrize("budget", ["30%", "60%", "100%", "500%"])
@pytest.mark.parametrize(
    "name", ["to", "to_device", "float", "contiguous", "type_as", "type", "dropout", "requires_grad_"]
)
def test_an_operation_that_returns_its_argument_is_kept(name, budget):
    assert_same(lambda: Layered(RETURNS_ITS_ARGUMENT[name]), budget=budget)


VIEWS = {
    "detached_twice": lambda weight, _: weight + weight.detach() * 0.1,
    "transposed": lambda weight, _: weight.T.contiguous(),
    "data": lambda weight, _: weight * weight.data.abs().amax(),
    "expand_as": RETURNS_ITS_ARGUMENT["expand_as"],
    "in_list": RETURNS_ITS_ARGUMENT["in_list"],
    "atleast_2d": RETURNS_ITS_ARGUMENT["atleast_2d"],
}


@shows_kept("views of parameters, and what is computed with them, in a forward")
@pytest.mark.parametrize("name", VIEWS)
def test_views_of_all_weights_at_once_are_kept_where_they_fit(name):
    assert_same(lambda: Layered(VIEWS[name]), budget="100%")


def test_an_argument_returned_is_the_parameter():
    model = Layered()
    cached = tencache.wrap(model, budget="40%")
    seen = []
    model.through = lambda weight, _: seen.append(weight.contiguous()) or weight
    model(batch(0))
    assert all(one is weight for one, weight in zip(seen, model.weights, strict=True))
    cached.unwrap()


@shows_refused("a forward that writes through a view, such as `weight.data.mul_()`", "write between steps")
@pytest.mark.parametrize("write", [lambda w: w.data.mul_(0.5), lambda w: w.detach().mul_(0.5)], ids=["data", "detach"])
def test_a_write_through_a_view_inside_a_forward_is_refused(write):
    def through(weight, _):
        with torch.no_grad():
            write(weight)
        return weight

    model = Layered(through)
    cached = tencache.wrap(model, torch.optim.SGD(model.parameters(), lr=0.1), budget="100%")
    with pytest.raises(RefusedError, match=r"weights\.0 is written to while the model runs"):
        model(batch(0))
    cached.unwrap()


# Optimizers


class GlobalNorm(torch.optim.SGD):
    """Divides by the norm of all gradients."""

    def step(self, closure=None):
        gradients = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None]
        norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
        for gradient in gradients:
            gradient.div_(norm + 1)
        return super().step(closure)


class Noisy(torch.optim.SGD):
    """Draws random numbers."""

    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad.add_(torch.randn_like(parameter.grad), alpha=0.1)
        return super().step(closure)


class CountingItself(torch.optim.SGD):
    """Counts its calls on itself, and takes smaller steps."""

    calls = 0

    def step(self, closure=None):
        self.calls += 1
        self.param_groups[0]["lr"] = 0.1 / self.calls
        return super().step(closure)


class CountingInGroups(torch.optim.SGD):
    """Counts its calls in its groups."""

    def step(self, closure=None):
        for group in self.param_groups:
            group["count"] = group.get("count", 0) + 1
            group["lr"] = 0.1 / group["count"]
        return super().step(closure)


class TwoEvaluations(torch.optim.SGD):
    """Calls its closure after a first move, as sharpness-aware minimisation does."""

    @torch.no_grad()
    def step(self, closure=None):
        with torch.enable_grad():
            closure()
        moved = []
        for parameter in self.param_groups[0]["params"]:
            moved.append(parameter.grad * 0.1)
            parameter.add_(moved[-1])
        with torch.enable_grad():
            loss = closure()
        for parameter, move in zip(self.param_groups[0]["params"], moved, strict=True):
            parameter.sub_(move)
        super().step()
        return loss


class NotQuiteAnOptimizer(torch.optim.Optimizer):
    """Wraps another optimizer without calling torch's constructor, as Lookahead does."""

    def __init__(self, parameters, lr):
        self.inner = torch.optim.Adam(parameters, lr=lr)
        self.param_groups = self.inner.param_groups
        self.state = self.inner.state
        self.defaults = self.inner.defaults

    def step(self, closure=None):
        return self.inner.step(closure)

    def state_dict(self):
        return self.inner.state_dict()

    def zero_grad(self, set_to_none=True):
        self.inner.zero_grad(set_to_none)


def closure_loop(model, optimizer):
    losses = []
    for step in range(4):

        def closure(step=step):
            optimizer.zero_grad()
            loss = model(batch(step))
            loss.backward()
            return loss

        losses.append(optimizer.step(closure).item())
    return losses


@shows_kept(
    "any optimizer: also one that takes a norm over all gradients, draws random numbers or counts its steps, since "
    "all but torch's own run as a whole"
)
@pytest.mark.parametrize("budget", ["40%", "100%", "500%"])
@pytest.mark.parametrize("kind", [GlobalNorm, Noisy, CountingItself, CountingInGroups, NotQuiteAnOptimizer])
def test_an_optimizer_that_couples_parameters_is_kept(kind, budget):
    assert_same(Layered, optimizer=kind, budget=budget)


@shows_kept("optimizers that call their closure when they like, LBFGS among them")
@pytest.mark.parametrize("kind", [torch.optim.LBFGS, TwoEvaluations, torch.optim.SGD, torch.optim.Rprop])
def test_an_optimizer_that_calls_its_closure_is_kept(kind):
    assert_same(Layered, closure_loop, optimizer=kind)


def test_a_step_put_on_the_optimizer_itself_is_kept():
    def loop(model, optimizer):
        return plain_loop(model, optimizer)

    def optimizer(parameters, lr):
        made = torch.optim.SGD(parameters, lr=lr)
        step = made.step

        def halved(closure=None):
            for parameter in made.param_groups[0]["params"]:
                parameter.grad.mul_(0.5)
            return step(closure)

        made.step = halved
        return made

    assert_same(Layered, loop, optimizer=optimizer)


def test_an_unknown_optimizer_keeps_its_state_in_memory_and_says_so(tmp_path):
    with pytest.warns(tencache.Notice, match="GlobalNorm is not known to update parameters one by one"):
        assert_same(Layered, optimizer=GlobalNorm, host="90KiB", nvme=tmp_path)


def test_a_parameter_that_is_new_to_the_optimizer_is_updated_too():
    def loop(model, optimizer):
        losses = plain_loop(model, optimizer, 2)
        model.weights[3] = nn.Parameter(model.weights[3].detach() * 2)
        optimizer.add_param_group({"params": [model.weights[3]], "lr": 0.1})
        return losses + plain_loop(model, optimizer, 3)

    assert_same(Layered, loop)


@pytest.mark.parametrize("how", ["grad", "inputs"])
def test_gradients_asked_for_by_name_need_no_parameter_on_the_device(how):
    def loop(model, optimizer):
        losses = []
        for step in range(3):
            loss = model(batch(step))
            wanted = list(model.parameters())
            if how == "grad":
                for parameter, gradient in zip(wanted, torch.autograd.grad(loss, wanted), strict=True):
                    parameter.grad = gradient
            else:
                loss.backward(inputs=wanted[2:])
            losses.append(loss.item())
            optimizer.step()
            optimizer.zero_grad()
        return losses

    assert_same(Layered, loop, budget="30%")


@pytest.mark.parametrize("options", [{}, {"foreach": True}, {"fused": True}])
def test_the_step_of_an_optimizer_that_was_not_wrapped_is_seen(options):
    """Torch's fused step does not count its writes as changes."""

    def loop(model, _):
        return plain_loop(model, torch.optim.AdamW(list(model.parameters())[:4], lr=0.01, **options))

    assert_same(Layered, loop, budget="100%")


@shows_refused("`parameter.set_()` to another shape, strides or type", "unwrap the model to change it")
def test_a_parameter_that_is_set_to_another_shape_is_refused():
    model = Layered()
    cached = tencache.wrap(model, budget="40%")
    with torch.no_grad(), pytest.raises(RefusedError, match=r"weights\.0 is given another shape or strides"):
        model.weights[0].set_(torch.ones(WIDTH, WIDTH).T[:8])
    cached.unwrap()


# Precision


def shared_cast_loop(model, optimizer):
    losses = []
    for step in range(4):
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(batch(step)) + (model(batch(step + 1)) if step % 2 else 0)
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
    return losses


class Looped(nn.Module):
    """Uses its weights more and more often."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))
        self.turns = 0

    def forward(self, x):
        self.turns += 1
        for layer in [layer for layer in self.layers for _ in range(self.turns)]:
            x = torch.tanh(layer(x)) + x
        return x.square().mean()


def autocast_loop(model, optimizer):
    losses = []
    for step in range(3):
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(batch(step))
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
    return losses


def one_autocast_loop(model, optimizer):
    """Autocast goes on with casts of the old weights; so must the wrapped run."""
    with torch.autocast("cpu", torch.bfloat16):
        return plain_loop(model, optimizer)


@shows_kept("bf16 autocast, with casts shared over forwards, in loops and over steps")
@pytest.mark.parametrize("loop", [shared_cast_loop, autocast_loop, one_autocast_loop])
@pytest.mark.parametrize("model", [Looped, Layered])
def test_casts_that_autocast_shares_are_shared(model, loop):
    assert_same(model, loop)


# Evaluation


@shows_kept("evaluation in between, under `no_grad()` and `inference_mode()`")
@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
@pytest.mark.parametrize("budget", ["40%", "100%"])
def test_training_goes_on_after_an_evaluation(mode, budget):
    def loop(model, optimizer):
        losses = []
        for step in range(4):
            with mode():
                losses.append(model(batch(step)).item())
                losses += [weight.sum().item() for weight in model.parameters()]
            losses += plain_loop(model, optimizer, 1)
        return losses

    assert_same(Looped, loop, budget=budget)


@shows_kept("a part of the model that is called by itself")
@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, torch.enable_grad])
def test_a_part_called_by_itself_runs_on_the_device(mode):
    model = Looped()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    expected = model.layers[2](batch(0)).detach()
    cached = tencache.wrap(model, optimizer, budget="40%", link=LINK)
    plain_loop(model, optimizer, 1)
    before = cached.stats().touches
    with mode():
        seen = model.layers[2](batch(0)).detach()
    assert cached.stats().touches > before
    assert not torch.equal(seen, expected)
    cached.unwrap()
    assert torch.equal(model.layers[2](batch(0)), seen)


def encoder_layer():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(WIDTH, 4, 64, batch_first=True)
    return nn.Sequential(layer, nn.TransformerEncoderLayer(WIDTH, 4, 64, batch_first=True)).eval()


@shows_refused(
    "evaluating `nn.MultiheadAttention` by torch's fast path",
    "`torch.backends.mha.set_fastpath_enabled(False)`",
)
def test_a_fast_path_that_rounds_differently_is_refused():
    model = encoder_layer()
    cached = tencache.wrap(model, budget="100%")
    with torch.no_grad(), pytest.raises(RefusedError, match=r"set_fastpath_enabled\(False\)"):
        model(batch(0)[None])
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad():
            assert torch.equal(model(batch(0)[None]), encoder_layer()(batch(0)[None]))
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    cached.unwrap()


# Aliases on the host


def tmp_file_options():
    return {"host": "90KiB", "nvme": tempfile.gettempdir()}


@shows_kept("views taken outside a forward: they see every update")
@pytest.mark.filterwarnings("ignore::tencache.Notice")
@pytest.mark.parametrize("options", [{}, {"budget": "500%"}, tmp_file_options()], ids=["memory", "resident", "file"])
def test_a_view_taken_outside_a_forward_sees_the_training(options):
    def loop(model, optimizer):
        kept = [weight.detach() for weight in model.parameters()]
        losses = plain_loop(model, optimizer)
        return losses + [view.sum().item() for view in kept]

    assert_same(Layered, loop, **options)


WRITES = {
    "data": lambda weight: weight.data.mul_(0.5),
    "detached_data": lambda weight: weight.detach().data.mul_(0.5),
    "numpy": lambda weight: np.multiply(weight.detach().numpy(), 0.5, out=weight.detach().numpy()),
    "in_place": lambda weight: weight.mul_(0.5),
    "copy": lambda weight: weight.copy_(weight * 0.5),
    "assigned": lambda weight: setattr(weight, "data", weight.data * 0.5),
    "storage": lambda weight: weight.untyped_storage().fill_(0),
}


@shows_kept("writes between steps, by any way to the bytes")
@pytest.mark.filterwarnings("ignore::tencache.Notice")
@pytest.mark.parametrize("options", [{}, {"budget": "100%"}, tmp_file_options()], ids=["40%", "100%", "file"])
@pytest.mark.parametrize("write", WRITES)
def test_writes_between_steps_are_seen(write, options):
    def loop(model, optimizer):
        losses = []
        for step in range(4):
            losses += plain_loop(model, optimizer, 2)
            with torch.no_grad():
                WRITES[write](model.weights[step])
            # A penalty outside the forward computes with it too.
            (model.weights[step].square().sum() + model(batch(step))).backward()
        return losses

    assert_same(Layered, loop, **options)


def test_writes_through_a_view_that_is_kept_are_seen():
    def loop(model, optimizer):
        kept = model.weights[2].data
        losses = []
        for _ in range(4):
            losses += plain_loop(model, optimizer, 1)
            kept.mul_(0.9)
        return losses

    assert_same(Layered, loop, budget="100%")


@shows_kept("torch's own errors, such as `backward()` after `step()`")
def test_backward_after_a_step_raises_as_it_does_unwrapped():
    model = Looped()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    cached = tencache.wrap(model, optimizer, budget="40%", link=LINK)
    loss = model(batch(0))
    loss.backward(retain_graph=True)
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        loss.backward()
    cached.unwrap()


# Wrapping itself


class Unhelpful(torch.optim.SGD):
    """Fails when it is attached to."""

    def __setattr__(self, name, value):
        if name == "zero_grad":
            raise AttributeError("zero_grad is not to be set")
        super().__setattr__(name, value)


@shows_kept("the model, if `wrap()` fails")
@pytest.mark.filterwarnings("ignore::tencache.Notice")
@pytest.mark.parametrize("options", [{}, tmp_file_options()], ids=["memory", "file"])
def test_a_wrap_that_fails_leaves_the_model_as_it_was(options):
    model = Looped()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    optimizer = Unhelpful(model.parameters(), lr=0.1)
    with pytest.raises(AttributeError, match="not to be set"):
        tencache.wrap(model, optimizer, budget="40%", **options)
    assert all(type(parameter) is nn.Parameter for parameter in model.parameters())
    assert not any(vars(parameter) for parameter in model.parameters())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert "step" not in vars(optimizer)
    assert same_tensors(model.state_dict(), before)
    plain_loop(model, optimizer, 1)
    tencache.wrap(model, budget="40%").unwrap()


@shows_refused("a folder that cannot be written, a disk too small for the state", "the message says how much is needed")
def test_a_disk_too_small_for_the_state_is_found_when_wrapping(tmp_path, monkeypatch):
    """Adam's state is twice the parameters: they fit the disk, it does not."""
    free_bytes = 40_000

    def allocate(_, offset, size):
        if offset + size > free_bytes:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", allocate)
    model = Layered()
    with pytest.raises(RefusedError, match="no room for"):
        tencache.wrap(model, torch.optim.Adam(model.parameters()), budget="40%", host="90KiB", nvme=tmp_path)
    plain_loop(model, torch.optim.Adam(model.parameters()), 1)


def test_a_file_without_a_limit_for_memory_is_a_mistake(tmp_path):
    with pytest.raises(ValueError, match="nvme= without host="):
        tencache.wrap(Layered(), budget="40%", nvme=tmp_path)


def test_an_unknown_policy_is_a_mistake_before_the_first_step():
    with pytest.raises(ValueError, match="policy='ahaed': choose one of ahead, zero3, bucket, lru"):
        tencache.wrap(Layered(), budget="40%", policy="ahaed")


@pytest.mark.parametrize("budget", [float("nan"), float("inf"), "nan", -1.0, 0, True, None])
def test_budgets_that_are_no_amounts_are_mistakes(budget):
    with pytest.raises(ValueError, match="amount of bytes"):
        tencache.wrap(Layered(), budget=budget)


@pytest.mark.parametrize("link", [float("nan"), "nan", 0.0, -1.0, float("inf")])
def test_links_that_are_no_speeds_are_mistakes(link):
    with pytest.raises(ValueError, match="bytes"):
        tencache.wrap(Layered(), budget="40%", link=link)


# Verifying


def device_leaf(result: torch.Tensor) -> torch.Tensor:
    """The device's own tensor, found in the graph as no sane program would."""
    return result.grad_fn.next_functions[1][0].variable


def test_verify_finds_a_device_tensor_that_has_escaped():
    """Each use of its bytes after they went is an error, whatever has taken their place."""
    leaves = []

    class Escaping(Layered):
        def forward(self, x):
            leaves.extend(device_leaf(x @ weight) for weight in self.weights)
            return x @ leaves[0]

    model = Escaping()
    cached = tencache.wrap(model, budget="40%", verify=True)
    with pytest.raises(CorruptedError, match="whose place is that of"):
        model(batch(0))
    assert all(
        torch.equal(leaf, weight) for leaf, weight in zip(leaves[-2:], list(model.parameters())[-2:], strict=True)
    )
    cached.unwrap()


def test_verify_poisons_what_is_free():
    model = Layered()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    cached = tencache.wrap(model, optimizer, budget="100%", verify=True)
    loss = model(batch(0))
    copies = cached.engine.device_copies
    first = copies.slots[0].data
    assert not first.view(torch.float32).isnan().any()
    loss.backward()
    copies.drop([0])
    assert first.view(torch.float32).isnan().all()
    cached.unwrap()


def test_verify_changes_no_bit():
    assert_same(Looped, autocast_loop, verify=True)
    assert_same(Layered, verify=True)


BETWEEN = {
    "in_place": lambda model: model.layers[-1].weight.mul_(2),
    "data": lambda model: model.layers[-1].weight.data.mul_(2),
    "numpy": lambda model: np.negative(model.layers[3].weight.numpy(), out=model.layers[3].weight.numpy()),
    "assigned": lambda model: setattr(model.layers[3].weight, "data", torch.ones(WIDTH, WIDTH)),
    "assigned_twice": lambda model: [
        setattr(model.layers[3].weight, "data", torch.full((WIDTH, WIDTH), value)) for value in (1.0, 2.0)
    ],
    "loaded": lambda model: model.load_state_dict({name: one * 2 for name, one in model.state_dict().items()}),
}
KEEPING = {"autocast": lambda: torch.autocast("cpu", torch.bfloat16), "save_on_cpu": save_on_cpu}


def backward_after(change, keeping):
    def loop(model, optimizer):
        losses = []
        for step in range(3):
            with keeping():
                loss = model(batch(step))
            with torch.no_grad():
                change(model)
            loss.backward()
            losses.append(loss.item())
            optimizer.step()
            optimizer.zero_grad()
        return losses

    return loop


@shows_kept("changes between forward and backward of what autocast or `save_on_cpu` kept a copy of")
@pytest.mark.parametrize("keeping", KEEPING)
@pytest.mark.parametrize("change", BETWEEN)
@pytest.mark.parametrize("verify", [False, True])
def test_backward_uses_what_was_kept_when_the_parameter_has_changed(keeping, change, verify):
    assert_same(Looped, backward_after(BETWEEN[change], KEEPING[keeping]), verify=verify)


@pytest.mark.parametrize("change", ["assigned", "assigned_twice"])
def test_what_was_saved_as_a_view_is_the_data_from_before_an_assignment(change):
    """Linear saves its weight transposed, which keeps the old memory."""
    assert_same(Looped, backward_after(BETWEEN[change], contextlib.nullcontext))


@shows_refused(
    "assigning `.data` of a weight that was saved as it is between forward and backward", "do it before both"
)
def test_data_assigned_after_a_parameter_was_saved_itself_is_refused():
    """Torch goes on with the new data if the weight itself was saved, with the old if it was a view of it."""
    model = Layered()
    cached = tencache.wrap(model, budget="40%")
    loss = model(batch(0))
    model.weights[3].data = torch.ones(WIDTH, WIDTH)
    with pytest.raises(RefusedError, match=r"weights\.3\.data was assigned to between forward and backward"):
        loss.backward()
    cached.unwrap()


def set_other(weight):
    with torch.no_grad():
        weight.set_(torch.ones(WIDTH, WIDTH))


NEW_DATA = {"assigned": lambda weight: setattr(weight, "data", torch.ones(WIDTH, WIDTH)), "set": set_other}


@pytest.mark.parametrize("change", NEW_DATA)
def test_other_data_for_a_parameter_that_hooks_keep_on_the_cpu_is_refused(change):
    """On the CPU save_on_cpu keeps the parameter itself, which follows it to the new data."""
    model = Layered()
    cached = tencache.wrap(model, budget="40%")
    with save_on_cpu():
        loss = model(batch(0))
    NEW_DATA[change](model.weights[3])
    with pytest.raises(RefusedError, match=r"weights\.3\.data was assigned to between forward and backward"):
        loss.backward()
    cached.unwrap()


def test_views_that_hooks_keep_on_the_cpu_have_the_memory_from_before_set():
    assert_same(Looped, backward_after(lambda model: set_other(model.layers[3].weight), save_on_cpu))


@shows_refused(
    "a change between forward and backward of a parameter that hooks on saved tensors hold", "`.clone()` it in the hook"
)
@pytest.mark.parametrize("change", [*NEW_DATA, "written", "numpy"])
def test_a_change_that_hooks_around_the_model_would_not_see_is_refused(change):
    """They hold device copies, and no node asks for another one: unwrapped they would hold the parameter."""
    changes = {
        **NEW_DATA,
        "written": lambda weight: weight.data.mul_(2),
        "numpy": lambda weight: np.negative(weight.detach().numpy(), out=weight.detach().numpy()),
    }
    model = Layered()
    cached = tencache.wrap(model, budget="1000%")
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor):
        loss = model(batch(0))
    changes[change](model.weights[3])
    with pytest.raises(RefusedError, match=r"views of weights\.3 are still alive where the parameter has changed"):
        loss.backward()
    cached.unwrap()


def test_backward_after_a_step_uses_the_casts_from_before_it():
    def loop(model, optimizer):
        losses = []
        for step in range(4):
            with torch.autocast("cpu", torch.bfloat16):
                loss = model(batch(step))
            loss.backward(retain_graph=True)
            optimizer.step()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        return losses

    assert_same(Looped, loop)


def test_a_change_after_an_assignment_raises_as_it_does_unwrapped():
    model = Looped()
    cached = tencache.wrap(model, budget="40%")
    loss = model(batch(0))
    model.layers[-1].weight.data = torch.ones(WIDTH, WIDTH)
    with torch.no_grad():
        model.layers[-1].weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        loss.backward()
    cached.unwrap()


@shows_refused(
    "writing with `out=` to a parameter of which autocast kept a cast, before `backward()`", "use `.copy_()`"
)
def test_a_write_that_is_not_seen_coming_is_refused():
    model = Looped()
    cached = tencache.wrap(model, budget="40%")
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(batch(0))
    with torch.no_grad():
        torch.add(torch.ones(WIDTH, WIDTH), 1, out=model.layers[-1].weight)
    with pytest.raises(RefusedError, match=r"layers\.7\.weight may have changed between forward and backward"):
        loss.backward()
    cached.unwrap()


@shows_kept("gradient hooks on parameters, also an optimizer for each that steps within backward")
def test_an_optimizer_that_steps_within_backward():
    expected, found = [_stepped_within_backward(budget) for budget in (None, "50%")]
    assert same_tensors(expected, found)


def _stepped_within_backward(budget):
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(16, 16) for _ in range(5)))
    cached = None if budget is None else tencache.wrap(model, budget=budget)
    optimizers = {parameter: torch.optim.Adam([parameter], foreach=False) for parameter in model.parameters()}

    def step(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    losses = []
    for number in range(4):
        loss = model(torch.full((3, 16), 0.1 * number)).square().mean()
        loss.backward()
        losses.append(loss.detach().clone())
    if cached is not None:
        cached.unwrap()
    return [losses, model.state_dict(), [optimizer.state_dict() for optimizer in optimizers.values()]]


@shows_kept("selective checkpointing, which counts operations")
def test_a_mode_of_the_users_does_not_see_our_copies():
    expected, found = [_checkpointed_selectively(budget) for budget in (None, "50%")]
    assert same_tensors(expected, found)


def _checkpointed_selectively(budget):
    torch.manual_seed(0)
    layers = nn.ModuleList(nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 16)) for _ in range(3))
    optimizer = torch.optim.AdamW(layers.parameters(), lr=0.01)
    cached = None if budget is None else tencache.wrap(layers, optimizer, budget=budget)
    saved = partial(create_selective_checkpoint_contexts, [torch.ops.aten.addmm.default])
    losses = []
    for _ in range(3):
        x = torch.ones(3, 16)
        for layer in layers:
            x = checkpoint(layer, x, use_reentrant=False, context_fn=saved)
        loss = x.square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach().clone())
    if cached is not None:
        cached.unwrap()
    return [losses, layers.state_dict(), optimizer.state_dict()]
