"""Parameters, gradients and forwards in the user's hands: memory that is assigned, held or dropped, and Ctrl-C."""

import gc
import io
import multiprocessing
import os

import numpy as np
import pytest
import torch
from tencache_cases import LINK, half_in_file, same_state, same_tensors, shows_kept, shows_refused
from torch import nn

import tencache
from tencache import RefusedError

WIDTH = 24
BUDGETS = ["40%", "100%", "1000%"]
FILE = {"budget": "70%", "file": True}


def make_model() -> nn.Module:
    return nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(5)))


def learn(model, optimizer, steps=2):
    losses = []
    for step in range(steps):
        loss = model(torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(step))).square().mean()
        loss.backward()
        losses.append(loss.detach())
        optimizer.step()
        optimizer.zero_grad()
    return losses


def assert_same(loop, prepare=lambda _: None, budget="40%", *, file=False, **options):
    """Run a program unwrapped and wrapped, and compare every bit of what it saw and of what is left."""
    runs = []
    for wrapped in (False, True):
        torch.manual_seed(0)
        model = make_model()
        held = prepare(model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        options |= half_in_file(model) if file else {}
        cached = tencache.wrap(model, optimizer, budget=budget, link=LINK, **options) if wrapped else None
        seen = loop(model, optimizer) if held is None else loop(model, optimizer, held)
        if cached is not None:
            cached.unwrap()
        runs.append((seen, held, model, optimizer))
    (seen, held, model, optimizer), (seen_wrapped, held_wrapped, wrapped_model, wrapped_optimizer) = runs
    assert same_tensors(seen_wrapped, seen)
    assert same_tensors(held_wrapped, held)
    assert same_tensors(wrapped_model.state_dict(), model.state_dict())
    assert same_state(wrapped_optimizer, optimizer)


def in_one_buffer(model):
    """Lay all parameters into one buffer, as some optimizers and distributed code do."""
    flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    start = 0
    for parameter in model.parameters():
        parameter.data = flat[start : start + parameter.numel()].view_as(parameter)
        start += parameter.numel()
    return [flat]


TAKEN = {
    "detach": lambda model: [parameter.detach() for parameter in model.parameters()],
    "state_dict": lambda model: list(model.state_dict().values()),
    "rows": lambda model: [model[2][0].weight.detach()[3:]],
    "one_buffer": in_one_buffer,
}


@shows_kept("a `detach()` or `state_dict()` taken before `wrap()`: it sees every update, and its writes are seen")
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("taken", TAKEN)
def test_what_was_taken_before_wrapping_stays_the_parameters_memory(taken, budget):
    def loop(model, optimizer, held):
        seen = [*learn(model, optimizer), *(one.clone() for one in held)]
        for one in held:
            one.mul_(0.75)
        return [*seen, *learn(model, optimizer)]

    assert_same(loop, TAKEN[taken], budget)


def write_to_assigned(model):
    new = torch.full((WIDTH, WIDTH), 0.125)
    model[0][0].weight.data = new
    new.mul_(0.5)
    return [new]


def swap_and_back(model):
    """Evaluate with other weights: the views of the own ones must stay what they are meanwhile."""
    own = [parameter.data for parameter in model.parameters()]
    for parameter in model.parameters():
        parameter.data = parameter.data * 0.5
    with torch.no_grad():
        seen = model(torch.ones(2, WIDTH))
    for parameter, data in zip(model.parameters(), own, strict=True):
        parameter.data = data
    return [seen]


def exchange(model):
    others = [nn.Parameter(torch.full_like(parameter, 0.0625)) for parameter in model.parameters()]
    for parameter, other in zip(model.parameters(), others, strict=True):
        parameter.data, other.data = other.data, parameter.data
    return others


ASSIGNED = {"write": write_to_assigned, "swap": swap_and_back, "exchange": exchange, "one_buffer": in_one_buffer}


@shows_kept("`.data` that is assigned: it is the parameter's memory from then on, whoever else holds it")
@pytest.mark.parametrize("options", [{}, {"budget": "1000%"}, {"verify": True}, FILE], ids=str)
@pytest.mark.parametrize("assigned", ASSIGNED)
def test_assigned_data_is_the_parameters_memory(assigned, options):
    def loop(model, optimizer):
        losses = learn(model, optimizer)
        held = ASSIGNED[assigned](model)
        losses += learn(model, optimizer)
        losses += [one.detach().clone() for one in held]
        del held
        return losses + learn(model, optimizer)

    assert_same(loop, **options)


def test_a_parameter_comes_back_when_nobody_else_holds_its_memory():
    """Only then its updates can be late again, and are worth a thread."""
    model = make_model()
    cached = tencache.wrap(model, torch.optim.AdamW(model.parameters()), budget="40%")
    new = torch.ones(WIDTH, WIDTH)
    model[0][0].weight.data = new
    model(torch.ones(2, WIDTH))
    assert cached.masters.elsewhere() == [0]
    del new
    model(torch.ones(2, WIDTH))
    assert cached.masters.elsewhere() == []
    assert model[0][0].weight.sum() == WIDTH * WIDTH
    cached.unwrap()


@pytest.mark.parametrize("before", [True, False], ids=["since before wrap", "assigned"])
def test_parameters_in_one_buffer_come_back_when_nobody_else_holds_it(before):
    """Each refers to the same memory, which keeps none of the others there."""
    model = make_model()

    def into_one_buffer():
        flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
        ends = torch.tensor([parameter.numel() for parameter in model.parameters()]).cumsum(0).tolist()
        for parameter, end in zip(model.parameters(), ends, strict=True):
            parameter.data = flat[end - parameter.numel() : end].view(parameter.shape)
        return flat

    flat = into_one_buffer() if before else None
    optimizer = torch.optim.AdamW(model.parameters())
    cached = tencache.wrap(model, optimizer, budget="40%", link=LINK)
    flat = into_one_buffer() if flat is None else flat
    learn(model, optimizer)
    assert len(cached.masters.elsewhere()) == 10
    del flat
    for _ in range(20):  # threads that copy, and what is not collected yet, hold the memory for a while
        gc.collect()
        learn(model, optimizer)
        if not cached.masters.elsewhere():
            break
    assert cached.masters.elsewhere() == []
    cached.unwrap()


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_zero_grad_of_the_models_own_is_there_after_unwrap(budget):
    model, called = make_model(), []

    def own(set_to_none=True):
        called.append(set_to_none)
        nn.Module.zero_grad(model, set_to_none)

    model.zero_grad = own
    optimizer = torch.optim.AdamW(model.parameters())
    cached = tencache.wrap(model, optimizer, budget=budget, link=LINK)
    learn(model, optimizer)
    model.zero_grad()
    cached.unwrap()
    assert model.__dict__["zero_grad"] is own
    assert called == [True]


def test_no_zero_grad_of_ours_is_there_after_unwrap():
    model = make_model()
    tencache.wrap(model, torch.optim.AdamW(model.parameters()), budget="40%", link=LINK).unwrap()
    assert "zero_grad" not in model.__dict__


@shows_refused("`.data` that is another parameter's", "tie them as one before `wrap()`")
def test_data_of_another_parameter_is_refused():
    model = make_model()
    cached = tencache.wrap(model, budget="40%")
    with pytest.raises(RefusedError, match=r"0\.0\.weight\.data is set to memory of 1\.0\.weight"):
        model[0][0].weight.data = model[1][0].weight.data
    cached.unwrap()


@shows_refused("`.data` with other strides, or on another device", "use `.copy_()`")
def test_data_that_is_laid_out_otherwise_is_refused():
    """Torch would compute with its strides, and round otherwise."""
    model = make_model()
    cached = tencache.wrap(model, budget="40%")
    with pytest.raises(RefusedError, match=r"0\.0\.weight is given data on cpu with strides \(1, 24\)"):
        model[0][0].weight.data = torch.ones(WIDTH, WIDTH).T
    cached.unwrap()


def read_own_buffers(model, optimizer):
    buffers = [torch.zeros_like(parameter) for parameter in model.parameters()]
    for parameter, buffer in zip(model.parameters(), buffers, strict=True):
        parameter.grad = buffer
    seen = []
    for step in range(3):
        for buffer in buffers:
            buffer.zero_()
        model(torch.full((4, WIDTH), 0.1 * step)).square().mean().backward()
        # Read without asking the parameter for its gradient.
        seen += [buffer.clone() for buffer in buffers]
        optimizer.step()
    return seen


def zero_by(how):
    def loop(model, optimizer):
        seen = []
        for step in range(4):
            loss = model(torch.full((4, WIDTH), 0.1 * step)).square().mean()
            loss.backward()
            optimizer.step()
            seen.append(loss.detach())
            for parameter in model.parameters():
                how(parameter)
        return seen

    return loop


def delete(parameter):
    del parameter.grad


def detach_and_zero(parameter):
    parameter.grad.detach_()
    parameter.grad.zero_()


GRADIENTS = {"own_buffers": read_own_buffers, "delete": zero_by(delete), "detach_": zero_by(detach_and_zero)}


@shows_kept("gradients that are held, deleted (`del p.grad`), or zeroed by `p.grad.detach_()` and `zero_()`")
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("way", GRADIENTS)
def test_gradients_in_the_users_hands_are_torchs_own(way, budget):
    assert_same(GRADIENTS[way], budget=budget)


class OwnZero:
    """An optimizer that is none of torch's, with a `zero_grad` of its own."""

    def __init__(self, parameters):
        self.inner = torch.optim.AdamW(parameters, lr=1e-2)
        self.param_groups, self.state = self.inner.param_groups, self.inner.state

    def step(self):
        self.inner.step()

    def zero_grad(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None


def test_a_zero_grad_without_torchs_argument_is_called_as_it_is():
    losses = []
    for wrapped in (False, True):
        torch.manual_seed(0)
        model = make_model()
        optimizer = OwnZero(model.parameters())
        cached = tencache.wrap(model, optimizer, budget="40%") if wrapped else None
        losses.append(learn(model, optimizer, 4))
        if cached is not None:
            cached.unwrap()
    assert same_tensors(*losses)


@shows_kept("a forward that Ctrl-C ended: training goes on, and `state_dict()` is that of the host")
@pytest.mark.parametrize("options", [{}, {"verify": True}], ids=["plain", "verify"])
@pytest.mark.parametrize("evaluating", [False, True])
def test_training_goes_on_after_an_interrupt(evaluating, options):
    def interrupted(*_):
        raise KeyboardInterrupt

    def loop(model, optimizer):
        losses = learn(model, optimizer)
        hook = model[2].register_forward_hook(interrupted)
        try:
            with torch.set_grad_enabled(not evaluating):
                model(torch.ones(2, WIDTH))
        except KeyboardInterrupt:
            hook.remove()
        state = [value.clone() for value in model.state_dict().values()]
        return [*losses, *state, *learn(model, optimizer)]

    assert_same(loop, **options)


WRITES_BEFORE_BACKWARD = {
    "numpy": lambda layer: np.negative(layer.weight.detach().numpy(), out=layer.weight.detach().numpy()),
    "data": lambda layer: layer.weight.data.mul_(0.5),
    # No node keeps a bias, so that torch does not mind.
    "in_place": lambda layer: layer.bias.add_(0.25),
}


@pytest.mark.parametrize("budget", ["70%", "1000%"])
@pytest.mark.parametrize("write", WRITES_BEFORE_BACKWARD)
def test_a_write_before_backward_to_what_is_in_the_file_is_there_in_the_next_forward(write, budget):
    def loop(model, optimizer):
        losses = []
        for step in range(6):
            losses += [loss := model(torch.full((4, WIDTH), 0.5 + step)).square().mean()]
            with torch.no_grad():
                for layer, _ in model:
                    WRITES_BEFORE_BACKWARD[write](layer)
            loss.backward()
        optimizer.step()
        return [loss.detach() for loss in losses]

    assert_same(loop, budget=budget, file=True)


class SeveralTypes(nn.Module):
    """Layers that are large for the budget, and small parameters of three types."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(128, 128) for _ in range(4))
        self.scales = nn.ParameterList(torch.ones(64, dtype=kind) for kind in (torch.float64, torch.bfloat16))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x)) * (self.scales[0] * self.scales[1]).to(x.dtype).repeat(2)
        return x


@pytest.mark.parametrize("budget", BUDGETS)
def test_small_parameters_of_several_types_can_be_saved(budget):
    """Torch saves no tensors of two types that lie in one storage."""
    model = SeveralTypes()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    cached = tencache.wrap(model, optimizer, budget=budget)
    for _ in range(2):
        model(torch.ones(2, 128)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        file = io.BytesIO()
        torch.save([model.state_dict(), optimizer.state_dict()], file)
        file.seek(0)
        assert same_tensors(torch.load(file)[0], model.state_dict())
    cached.unwrap()


def in_an_array(model, tmp_path):
    array = model[2][0].weight.detach().numpy().copy()
    model[2][0].weight.data = torch.from_numpy(array)
    return torch.from_numpy(array)


def in_a_bytearray(model, tmp_path):
    memory = bytearray(model[2][0].weight.nbytes + 64)
    start = -np.frombuffer(memory, np.uint8).ctypes.data % 64
    data = torch.frombuffer(memory, dtype=torch.float32, offset=start, count=WIDTH * WIDTH).view(WIDTH, WIDTH)
    model[2][0].weight.data = data.copy_(model[2][0].weight.detach())
    return torch.frombuffer(memory, dtype=torch.float32, offset=start, count=WIDTH * WIDTH)


def in_a_shared_file(model, tmp_path):
    path = tmp_path / "weight"
    model[2][0].weight.detach().numpy().tofile(path)
    model[2][0].weight.data = torch.from_file(str(path), shared=True, size=WIDTH * WIDTH).view(WIDTH, WIDTH)
    return torch.from_numpy(np.memmap(path, np.float32, "r+", shape=(WIDTH * WIDTH,)))


@shows_kept("parameters and gradients in the memory of an array, a shared file or another process")
@pytest.mark.parametrize("options", [{"budget": "40%"}, {"budget": "1000%"}, FILE])
@pytest.mark.parametrize("place", [in_an_array, in_a_bytearray, in_a_shared_file])
def test_a_parameter_in_memory_that_torch_does_not_count(place, options, tmp_path):
    """Who holds the array sees every update, and its writes are seen, though no tensor refers to that memory."""

    def loop(model, optimizer, array):
        seen = []
        for _ in range(2):
            seen += [*learn(model, optimizer), array.clone()]
            array *= 0.75
        return seen

    assert_same(loop, lambda model: place(model, tmp_path), **options)


@pytest.mark.parametrize("budget", BUDGETS)
def test_an_array_assigned_between_steps_stays_the_parameters_memory(budget):
    def loop(model, optimizer):
        seen = learn(model, optimizer)
        array = in_an_array(model, None)
        for _ in range(3):
            seen += [*learn(model, optimizer), array.clone()]
            array *= 0.75
        return seen

    assert_same(loop, budget=budget)


@pytest.mark.parametrize("budget", BUDGETS)
def test_gradients_in_an_array_are_there_when_backward_is_over(budget):
    def loop(model, optimizer):
        arrays = [np.zeros(tuple(parameter.shape), np.float32) for parameter in model.parameters()]
        for parameter, array in zip(model.parameters(), arrays, strict=True):
            parameter.grad = torch.from_numpy(array)
        seen = []
        for step in range(4):
            model(torch.full((4, WIDTH), 0.1 * step)).square().mean().backward()
            seen += [torch.from_numpy(array.copy()) for array in arrays]
            for array in arrays:
                np.multiply(array, 0.5, out=array)
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
        return seen

    assert_same(loop, budget=budget)


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_process_from_before_sees_what_is_in_shared_memory(budget):
    def loop(model, optimizer, worker):
        seen = learn(model, optimizer)
        worker.send(True)
        return [*seen, torch.frombuffer(bytearray(worker.recv()), dtype=torch.float32)]

    def share(model):
        model.share_memory()
        here, there = multiprocessing.Pipe()
        if os.fork() == 0:
            there.recv()
            there.send(model[2][0].weight.detach().numpy().tobytes())
            os._exit(0)
        return here

    held = []
    assert_same(lambda model, optimizer: loop(model, optimizer, held.pop()), lambda m: held.append(share(m)), budget)


def test_a_mapped_checkpoint_is_no_memory_of_others(tmp_path):
    """It is mapped for this process alone, so its parameters may be late as any others."""
    torch.save(make_model().state_dict(), tmp_path / "model.pt")
    model = make_model()
    model.load_state_dict(torch.load(tmp_path / "model.pt", mmap=True), assign=True)
    cached = tencache.wrap(model, None, budget="40%")
    assert cached.masters.elsewhere() == []
    cached.unwrap()
