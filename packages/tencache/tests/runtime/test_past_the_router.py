"""Ways to a parameter's bytes that torch opens without asking it: each is the unwrapped run bit by bit, or refused."""

import contextlib
import os
import pickle
import subprocess
import sys
import threading
from unittest.mock import patch

import pytest
import torch
from tencache_cases import LINK, half_in_file, same_state, same_tensors, shows_kept, shows_refused
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

import tencache
from tencache import RefusedError
from tencache.runtime.optimizer import known_optimizers
from tencache.runtime.tensors.masters import Masters
from tencache.runtime.unrouted import Unrouted

# Of optimizers of one's own it is said that their state stays in memory.
pytestmark = pytest.mark.filterwarnings("ignore::tencache.errors.Notice")
WIDTH = 24
FILE = {"budget": "70%", "file": True}
OPTIONS = [{"budget": "45%"}, {"budget": "45%", "verify": True}, FILE, {"budget": "100%", "link": LINK}]


@pytest.fixture(autouse=True)
def late():
    """Updates on a thread, however small the parameters are: bytes that nobody asks for are old ones."""
    with patch.object(known_optimizers, "WORTH_BYTES", 0):
        yield


def layers(count=5) -> nn.Sequential:
    return nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(count)))


def batch(step=0, *shape) -> torch.Tensor:
    return torch.randn(*(shape or (4, WIDTH)), generator=torch.Generator().manual_seed(step))


def learn(model, optimizer, steps=3):
    losses = []
    for step in range(steps):
        loss = model(batch(step)).square().mean()
        loss.backward()
        losses.append(loss.detach())
        optimizer.step()
        optimizer.zero_grad()
    return losses


def wrap(model, optimizer=None, *, file=False, **options):
    return tencache.wrap(model, optimizer, **options, **(half_in_file(model) if file else {}))


def assert_same(program, make=layers, make_optimizer=torch.optim.AdamW, **options):
    """Run a program unwrapped and wrapped, and compare every bit of what it saw and of what is left."""
    runs = []
    for wrapped in (False, True):
        torch.manual_seed(0)
        model = make()
        optimizer = make_optimizer([parameter for parameter in model.parameters() if parameter.requires_grad], lr=1e-2)
        cached = wrap(model, optimizer, **options) if wrapped else None
        try:
            seen = program(model, optimizer)
        finally:
            if cached is not None:
                cached.unwrap()
        runs.append((seen, model, optimizer))
    (seen, model, optimizer), (seen_wrapped, wrapped_model, wrapped_optimizer) = runs
    assert same_tensors(seen_wrapped, seen)
    assert same_tensors(wrapped_model.state_dict(), model.state_dict())
    assert same_state(wrapped_optimizer, optimizer)


# Optimizers that give parameters other memory


class Assigning(torch.optim.Optimizer):
    """Writes no parameter, but assigns a new one, as optimizers that are written by hand often do."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr})

    def update(self, parameter, value):
        parameter.data = value

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self.update(parameter, parameter.data - group["lr"] * parameter.grad)
        return loss


class Holding(Assigning):
    def update(self, parameter, value):
        self.state[parameter]["own"] = value
        parameter.data = value


class Setting(Assigning):
    def update(self, parameter, value):
        parameter.set_(value)


class CallingAgain(Assigning):
    """Asks for the loss again after its update."""

    def step(self, closure=None):
        super().step(closure)
        return closure()


class Sharp(torch.optim.SGD):
    """Climbs before it descends, and puts the weights back by assigning them."""

    def step(self, closure=None):
        own = {}
        with torch.no_grad():
            closure_loss = self.climb(closure, own)
        super().step()
        return closure_loss

    def climb(self, closure, own):
        with torch.enable_grad():
            closure()
        for parameter in self.param_groups[0]["params"]:
            own[parameter] = parameter.data.clone()
            parameter.add_(parameter.grad, alpha=0.05)
        with torch.enable_grad():
            loss = closure()
        for parameter, data in own.items():
            parameter.data = data
        return loss


@shows_kept("optimizers that assign `p.data`, or `set_()` it, instead of writing to it")
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("kind", [Assigning, Holding, Setting])
def test_an_optimizer_that_assigns_trains(kind, options):
    assert_same(learn, make_optimizer=kind, **options)


@shows_refused(
    "`backward()` again, of a graph from before a step in which the optimizer assigned `p.data`",
    "do it before `step()`",
)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_backward_again_after_an_optimizer_assigned_is_refused(options):
    """Linear saves its weight transposed, with which torch goes on as it was before the step."""
    model = layers()
    optimizer = Assigning(model.parameters(), lr=1e-2)
    cached = wrap(model, optimizer, **options)
    loss = model(batch()).square().mean()
    loss.backward(retain_graph=True)
    optimizer.step()
    with pytest.raises(RefusedError, match="was assigned to between forward and backward"):
        loss.backward()
    cached.unwrap()


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("kind", [CallingAgain, Sharp])
def test_a_forward_within_the_step_sees_what_was_assigned(kind, options):
    def program(model, optimizer):
        def closure():
            optimizer.zero_grad()
            loss = model(batch()).square().mean()
            loss.backward()
            return loss

        return [optimizer.step(closure).detach() for _ in range(3)]

    assert_same(program, make_optimizer=kind, **options)


@shows_kept("`parameter.set_()` to a tensor of the same shape, strides and type")
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_memory_that_is_set_is_the_parameters(options):
    def program(model, optimizer):
        seen = learn(model, optimizer)
        other = torch.full((WIDTH, WIDTH), 0.125)
        with torch.no_grad():
            model[1][0].weight.set_(other)
        seen += learn(model, optimizer)
        other.mul_(0.5)
        return [*seen, *learn(model, optimizer), other.clone()]

    assert_same(program, **options)


def _asked_of_a_graph_from_before(model, _):
    loss = model(batch()).square().mean()
    with torch.no_grad():
        model[1][0].bias.set_(torch.full((WIDTH,), 0.125))
    return torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)


def _asked_of_casts_from_before(model, optimizer):
    with torch.autocast("cpu", torch.bfloat16):
        seen = learn(model, optimizer)
        loss = model(batch()).square().mean()
        return [*seen, *torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)]


def _hooked_before(model, optimizer):
    seen = []
    torch.autograd.graph.register_multi_grad_hook(
        list(model.parameters()), lambda gradients: seen.extend(gradient.clone() for gradient in gradients)
    )
    return [*learn(model, optimizer), len(seen), *seen]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("program", [_asked_of_a_graph_from_before, _asked_of_casts_from_before, _hooked_before])
def test_set_gives_a_parameter_another_node_as_torch_does(program, options):
    """A graph from before it, also that of a cast which autocast keeps, ends in a node that is not asked any more."""
    assert_same(program, make_optimizer=Setting, **options)


# Several wrapped models


@shows_kept("operations on parameters of two wrapped models")
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_operations_on_parameters_of_two_wrapped_models(options):
    runs = []
    for wrapped in (False, True):
        torch.manual_seed(0)
        models = [layers(3), layers(3)]
        optimizers = [torch.optim.AdamW(model.parameters(), lr=1e-2) for model in models]
        cached = [wrap(*pair, **options) for pair in zip(models, optimizers, strict=True) if wrapped]
        one, other = models
        seen = []
        for step in range(3):
            loss = (one[0][0].weight @ other[0][0].weight).square().mean() + other(one(batch(step))).square().mean()
            seen.append(loss.detach())
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
            with torch.no_grad():
                for mean, parameter in zip(other.parameters(), one.parameters(), strict=True):
                    mean.mul_(0.9).add_(parameter, alpha=0.1)
        asked = [one[0][0].weight, other[1][0].weight]
        seen += torch.autograd.grad((asked[0] * asked[1]).sum() + other(one(batch(9))).mean(), asked)
        for each in cached:
            each.unwrap()
        runs.append([seen, *(model.state_dict() for model in models), *(each.state_dict() for each in optimizers)])
    assert same_tensors(runs[1], runs[0])


@shows_refused("`.data` that is a parameter of another wrapped model", "use `.copy_()`")
def test_data_that_is_a_parameter_of_another_wrapped_model():
    models = [layers(2), layers(2)]
    cached = [wrap(model, budget="60%") for model in models]
    with pytest.raises(RefusedError, match="is set to memory of another parameter"):
        models[0][0][0].weight.data = models[1][0][0].weight
    for each in cached:
        each.unwrap()


# torch.func


class Ensemble(nn.Module):
    """Maps over the first dimension of a parameter."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.experts = nn.Parameter(torch.randn(3, WIDTH, WIDTH) / 5)
        self.rest = layers(3)

    def forward(self, x):
        x = self.first(x)
        return self.rest(torch.vmap(lambda expert: x @ expert)(self.experts).sum(0))


@shows_kept("`torch.vmap` over a parameter")
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("trained", [True, False])
def test_a_parameter_that_is_mapped_over(trained, options):
    def make():
        model = Ensemble()
        model.experts.requires_grad_(trained)
        return model

    def program(model, optimizer):
        seen = learn(model, optimizer)
        with torch.no_grad():
            return [*seen, model(batch(7)), torch.vmap(torch.sum)(model.experts)]

    assert_same(program, make, **{**options, "budget": "80%"})


def test_differentiating_by_a_parameter_is_refused_whatever_is_pending():
    model = layers()
    optimizer = torch.optim.AdamW(model.parameters())
    cached = wrap(model, optimizer, budget="70%")
    learn(model, optimizer)
    with pytest.raises(RefusedError, match=r"inside torch\.func\.grad"):
        torch.func.grad(lambda weight: weight.square().sum())(model[0][0].weight)
    cached.unwrap()


ALONE = """
import torch
from torch._functorch import eager_transforms, vmap

import tencache


def functions():
    return vmap._add_batch_dim, eager_transforms._wrap_for_grad


own = functions()
cached = [tencache.wrap(torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(4))), budget="60%") for _ in "ab"]
assert functions() != own
cached[0].unwrap()
assert functions() != own
cached[1].unwrap()
assert functions() == own
"""


def test_torch_has_its_own_functions_again_when_nothing_is_wrapped():
    """In a process of its own: here models of other tests may still be wrapped."""
    subprocess.run([sys.executable, "-c", ALONE], check=True)


# What torch reads by itself


@shows_refused("a part of the model that `torch.jit` made", "wrap the module that it was made of")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [torch.jit.script, lambda part: torch.jit.trace(part, batch())])
def test_a_part_of_torch_jit(make):
    model = layers()
    model[2] = make(model[2])
    with pytest.raises(RefusedError, match=r"2 is a module of torch\.jit"):
        wrap(model, budget="70%")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", [OPTIONS[0], OPTIONS[3]], ids=str)
def test_what_torch_jit_reads_in_an_evaluation_is_up_to_date(options):
    product = torch.jit.script(_product)

    class Scripted(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.rest = nn.Linear(WIDTH, WIDTH), layers(3)

        def forward(self, x):
            return self.rest(self.first(x) if torch.is_grad_enabled() else product(x, self.first.weight))

    def program(model, optimizer):
        seen = learn(model, optimizer)
        with torch.no_grad():
            return [*seen, model(batch(5))]

    assert_same(program, Scripted, **options)


def _product(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x @ weight.t())


def test_a_parameter_in_the_file_is_not_a_number_to_whoever_does_not_ask():
    model = layers()
    cached = wrap(model, torch.optim.AdamW(model.parameters()), **FILE)
    filed = [entry.parameter for entry in cached.entries if entry.unit in cached.masters._filed]
    with torch._C.DisableTorchFunctionSubclass():
        assert filed
        assert all(parameter.isnan().all() for parameter in filed)
    assert not any(parameter.isnan().any() for parameter in filed)
    cached.unwrap()


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_view_of_another_class_is_up_to_date(options):
    def program(model, optimizer):
        return [*learn(model, optimizer), model[1][0].weight.as_subclass(torch.Tensor).detach().clone()]

    assert_same(program, **options)


# What is done to the tensor itself


@shows_refused("changing a parameter's shape or strides in place, as `weight.t_()` does", "unwrap the model for it")
def test_a_parameter_that_is_transposed_in_place():
    model = layers()
    cached = wrap(model, budget="70%")
    before = model[1][0].weight.detach().clone()
    with torch.no_grad(), pytest.raises(RefusedError, match=r"1\.0\.weight is given another shape or strides in place"):
        model[1][0].weight.t_()
    assert torch.equal(model[1][0].weight, before)
    cached.unwrap()


@shows_refused("`torch.utils.swap_tensors()` with a parameter", "use `.copy_()`")
@pytest.mark.parametrize("options", [{"budget": "70%"}, FILE], ids=str)
def test_a_parameter_that_is_exchanged(options):
    model = layers()
    cached = wrap(model, torch.optim.AdamW(model.parameters()), **options)
    other = nn.Parameter(torch.ones(WIDTH, WIDTH))
    weight = model[1][0].weight
    torch.utils.swap_tensors(weight, other)
    with pytest.raises(RefusedError, match=r"1\.0\.weight was exchanged for another tensor"):
        model(batch())
    torch.utils.swap_tensors(weight, other)
    model(batch())
    cached.unwrap()


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_moving_the_model_to_where_it_is(options):
    def program(model, optimizer):
        seen = learn(model, optimizer)
        model.to("cpu").float()
        return seen + learn(model, optimizer)

    assert_same(program, **options)


class Conjugate(nn.Module):
    """Multiplies by conjugates and their imaginary parts, which torch only marks until it computes with them."""

    def __init__(self):
        super().__init__()
        self.weights = nn.ParameterList(torch.randn(WIDTH, WIDTH, dtype=torch.cfloat) for _ in range(4))

    def forward(self, x):
        one, two, three, four = self.weights
        return (x.to(one.dtype) @ one.conj() @ two.mH @ four + x @ three.conj().imag).abs()


@shows_kept("complex parameters, also as conjugates that torch only marks")
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_conjugates_of_complex_parameters(options):
    assert_same(learn, Conjugate, torch.optim.SGD, **options)


# Forked processes


@shows_kept("a forked process, as a data loader's worker, that reads parameters")
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_forked_process_reads_parameters(options):
    def program(model, optimizer):
        seen = learn(model, optimizer)
        return [*seen, _in_child(lambda: [parameter.detach().sum() for parameter in model.parameters()])]

    assert_same(program, **options)


def test_a_thread_that_reads_what_is_in_the_file_has_its_view_before_that_closes(monkeypatch):
    """A forward that begins in another thread closes what is open and not held."""
    model = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16))
    expected = [parameter.detach().clone() for parameter in model.parameters()]
    cached = tencache.wrap(model, None, budget="100%", **half_in_file(model))
    opened = Masters.open

    def close(masters):
        with Unrouted():
            masters.close_all(lambda _: False)

    def open_and_let_others_come(masters, unit):
        opened(masters, unit)
        other = threading.Thread(target=close, args=(masters,))
        other.start()
        other.join(0.05)

    monkeypatch.setattr(Masters, "open", open_and_let_others_come)
    found = [parameter.detach().clone() for parameter in model.parameters()]
    monkeypatch.undo()
    cached.unwrap()
    assert same_tensors(found, expected)


@shows_refused("a forked process that changes what is in the file", "start it before `wrap()`")
def test_a_forked_process_does_not_write_to_its_parents_file():
    model = layers()
    optimizer = torch.optim.AdamW(model.parameters())
    cached = wrap(model, optimizer, **FILE)
    learn(model, optimizer)
    # no backward in it: torch itself refuses that where its threads ran before the fork
    error = _in_child(lambda: _update(model, optimizer))
    assert "a forked process cannot change" in error
    learn(model, optimizer)
    cached.unwrap()


def _update(model, optimizer):
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return [parameter.detach().sum() for parameter in model.parameters()]


def _in_child(work):
    """Return what a forked process comes to, or the text of its error."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001  told to the parent
            result = str(error)
        os.write(writing, pickle.dumps(result))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        found = pickle.loads(answer.read())
    os.waitpid(child, 0)
    return found


# What is entered between a forward that Ctrl-C ended and the next one


class Interrupted(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.ends = layers(), False

    def forward(self, x):
        x = self.layers(x)
        if self.ends:
            raise KeyboardInterrupt
        return x


@pytest.mark.parametrize("options", [OPTIONS[0], OPTIONS[1]], ids=str)
@pytest.mark.parametrize("entered", ["hooks", "mode"])
def test_what_is_entered_after_an_interrupted_forward_stays(entered, options):
    """What the forward had entered is left late, from below what was entered since."""

    def program(model, optimizer):
        model.ends = True
        with contextlib.suppress(KeyboardInterrupt):
            model(batch())
        model.ends = False
        counting = FlopCounterMode(display=False)
        with saved_tensors_hooks(_rounded, lambda tensor: tensor) if entered == "hooks" else counting:
            loss = model(batch()).square().mean()
        loss.backward()
        optimizer.step()
        return [loss.detach(), *learn(model, optimizer), counting.get_total_flops()]

    assert_same(program, Interrupted, **options)


def _rounded(tensor):
    return tensor.to(torch.bfloat16).to(tensor.dtype) if tensor.is_floating_point() else tensor


# Graphs from before the device was let go


def _unwrapped_before_backward(model, optimizer, unwrap):
    seen = learn(model, optimizer)
    loss = model(batch()).square().mean()
    unwrap()
    loss.backward()
    seen += [parameter.grad.clone() for parameter in model.parameters()]
    optimizer.step()
    return seen


def _backward_again_after_the_first_step(model, optimizer, unwrap):
    loss = model[0][0](batch()).sum()
    loss.backward(retain_graph=True)
    optimizer.step()
    optimizer.zero_grad()
    loss.backward()
    seen = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    optimizer.step()
    unwrap()
    return seen


@shows_kept("`backward()` of a graph from before `unwrap()`, or from before everything stayed on the device")
@pytest.mark.parametrize("options", [*OPTIONS, {"budget": "1000%"}], ids=str)
@pytest.mark.parametrize("program", [_unwrapped_before_backward, _backward_again_after_the_first_step])
def test_backward_of_a_graph_from_before_the_device_was_let_go(program, options):
    runs = []
    for wrapped in (False, True):
        torch.manual_seed(0)
        model = layers()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        unwrap = wrap(model, optimizer, **options).unwrap if wrapped else lambda: None
        runs.append([program(model, optimizer, unwrap), model.state_dict(), optimizer.state_dict()["state"]])
    assert same_tensors(runs[1], runs[0])


@shows_kept("parameters that are frozen between forward and backward, and so get no gradient")
@pytest.mark.parametrize("options", OPTIONS)
def test_what_is_frozen_after_the_forward_gets_no_gradient(options):
    def program(model, optimizer):
        seen = []
        for step in range(4):
            loss = model(batch(step)).square().mean()
            model[step % 2][0].weight.requires_grad_(False)
            loss.backward()
            seen += [loss.detach(), *(parameter.grad is None for parameter in model.parameters())]
            model.requires_grad_(True)
            optimizer.step()
            optimizer.zero_grad()
        return seen

    assert_same(program, **options)


@pytest.mark.parametrize("options", OPTIONS)
def test_freezing_between_two_forwards_is_what_torch_makes_of_it(options):
    """A graph that is alive ends in the parameter: it gets a gradient if it is trained when backward comes."""

    def program(model, optimizer):
        seen = []
        for step in range(4):
            loss = model(batch(step)).square().mean()
            model[0][0].weight.requires_grad = False
            other = model(batch(step + 9)).square().mean()
            model.requires_grad_(step % 2 == 0)
            loss.backward()
            model.requires_grad_(True)
            other.backward()
            seen += [loss.detach(), *(parameter.grad for parameter in model.parameters())]
            optimizer.step()
            optimizer.zero_grad()
        return [value.clone() for value in seen if value is not None]

    assert_same(program, **options)


@pytest.mark.parametrize("options", OPTIONS)
def test_hooks_on_landed_gradients_are_called_for_what_was_frozen(options):
    """torch calls them although there is no gradient."""

    def program(model, optimizer):
        seen = []
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(lambda one: seen.append(one.grad is None))
        for step in range(3):
            loss = model(batch(step)).square().mean()
            model[step][0].weight.requires_grad_(False)
            loss.backward()
            model.requires_grad_(True)
            optimizer.step()
            optimizer.zero_grad()
        return [*seen, loss.detach()]

    assert_same(program, **options)


@pytest.mark.parametrize("options", OPTIONS)
def test_what_is_frozen_while_backward_recomputes_it(options):
    """The leaf is frozen by then, and torch gives it no gradient at all."""

    def program(model, optimizer):
        seen = []
        for step in range(4):
            x = model[0](batch(step))
            for part in list(model)[1:]:
                x = checkpoint(part, x, use_reentrant=True)
            model[step % 2 + 1][0].weight.requires_grad_(False)
            x.square().mean().backward()
            seen += [x.detach(), *(parameter.grad is None for parameter in model.parameters())]
            model.requires_grad_(True)
            optimizer.step()
            optimizer.zero_grad()
        return seen

    assert_same(program, **options)


@shows_refused(
    "freezing between forward and backward what is given to checkpointing as an argument", "do it before or after both"
)
def test_a_parameter_given_to_checkpointing_that_is_frozen_before_backward():
    """torch computes it again with the parameter as it is by then, and would raise: the two differ in what is saved."""

    class Given(nn.Linear):
        def forward(self, x):
            return checkpoint(lambda x, weight: torch.tanh(x @ weight), x, self.weight, use_reentrant=False)

    model = nn.Sequential(*layers(), Given(WIDTH, WIDTH))
    cached = tencache.wrap(model, None, budget="80%")
    loss = model(batch()).sum()
    model[-1].weight.requires_grad_(False)
    with pytest.raises(RefusedError, match=r"5\.weight is given to checkpointing, and was frozen"):
        loss.backward()
    cached.unwrap()
