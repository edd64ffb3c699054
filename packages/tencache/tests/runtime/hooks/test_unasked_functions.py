"""Functions of torch that do not ask a parameter's class: they read what the unwrapped run reads, wherever called."""

import contextlib
import time
import warnings
from unittest.mock import patch

import pytest
import torch
from tencache_cases import half_in_file, same_tensors, shows_kept, shows_refused
from torch import nn

import tencache
from tencache import RefusedError
from tencache.runtime import attach
from tencache.runtime.optimizer import known_optimizers
from tencache.runtime.optimizer.stand_in import StandIn

WIDTH = 16
pytestmark = pytest.mark.filterwarnings("ignore")
own_step = StandIn.step


def _slow(self, *arguments) -> None:
    time.sleep(0.003)
    own_step(self, *arguments)


@pytest.fixture(autouse=True)
def late():
    """Updates on a thread, and slow ones: bytes that are read without waiting are old."""
    small = patch.object(attach, "SLICE_BYTES", 1024), patch.object(known_optimizers, "WORTH_BYTES", 0)
    with small[0], small[1], patch.object(StandIn, "step", _slow):
        yield


def _product(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x @ weight


def _first_doubled(weights: list[torch.Tensor]) -> torch.Tensor:
    return weights[0] * 2


with warnings.catch_warnings():
    # torch says of all of torch.jit that it is deprecated.
    warnings.simplefilter("ignore")
    product, first_doubled = torch.jit.script(_product), torch.jit.script(_first_doubled)


class Own(torch.Tensor):
    """A class of the user's."""


PLACES = torch.arange(WIDTH).repeat(2, 1)
ROWS, COLUMNS = torch.arange(0, WIDTH * WIDTH + 1, WIDTH), torch.arange(WIDTH).repeat(WIDTH)
READS = {
    "jit": lambda weight, x: product(x, weight),
    "jit by name": lambda weight, x: product(x=x, weight=weight),
    "jit in a list": lambda weight, _: first_doubled([weight]),
    "tensor": lambda weight, _: torch.tensor(weight),
    "as_tensor": lambda weight, _: torch.as_tensor(weight) * 2,
    "as_tensor of another type": lambda weight, _: torch.as_tensor(weight, dtype=torch.float64),
    "asarray": lambda weight, _: torch.asarray(weight, copy=True),
    "new_tensor": lambda weight, x: x.new_tensor(weight),
    "new": lambda weight, x: x.new(weight) * 2,
    "Tensor": lambda weight, _: torch.Tensor(weight) * 2,
    "set_": lambda weight, _: torch.empty(0).set_(weight) * 2,
    "_make_subclass": lambda weight, _: torch.Tensor._make_subclass(Own, weight).as_subclass(torch.Tensor) * 2,
    "to_dlpack": lambda weight, _: torch.from_dlpack(torch.utils.dlpack.to_dlpack(weight)) * 2,
    "sparse_coo_tensor": lambda weight, _: torch.sparse_coo_tensor(PLACES, weight, (WIDTH,) * 3).to_dense(),
    "sparse_csr_tensor": lambda weight, _: torch.sparse_csr_tensor(
        ROWS, COLUMNS, weight.view(-1), (WIDTH,) * 2
    ).to_dense(),
    "nested_tensor": lambda weight, _: torch.nested.nested_tensor([weight, weight]).to_padded_tensor(0.0),
}


class Reading(nn.Module):
    def __init__(self, read, where):
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH) / 4)
        self.read, self.where = read, where
        self.seen = []

    def forward(self, x):
        if self.where == "forward":
            with torch.no_grad():
                self.seen.append(self.read(self.weight, x).clone())
        return self.last(torch.tanh(self.first(x) @ self.weight)).square().mean()


def outcome(read, where, **options):
    torch.manual_seed(0)
    model = Reading(read, where)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    file = half_in_file(model) if options.pop("file", False) else {}
    cached = tencache.wrap(model, optimizer, **options, **file) if options else None
    with contextlib.ExitStack() as after:
        if cached is not None:
            after.callback(cached.unwrap)
        for step in range(3):
            model(torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(step))).backward()
            optimizer.step()
            optimizer.zero_grad()
            if where == "after step()":
                with torch.no_grad():
                    model.seen.append(read(model.weight, torch.ones(3, WIDTH)).clone())
    return model.seen, [parameter.detach() for parameter in model.parameters()]


@shows_kept("what `torch.jit` compiled, `torch.tensor(weight)` and other constructors, sparse ones too, in a forward")
@pytest.mark.parametrize("file", [False, True], ids=["host", "file"])
@pytest.mark.parametrize("where", ["forward", "after step()"])
@pytest.mark.parametrize("name", READS)
def test_what_is_read_without_asking_is_up_to_date(name, where, file):
    expected = outcome(READS[name], where)
    assert same_tensors(outcome(READS[name], where, budget="70%", file=file), expected)


def test_a_constructor_that_returns_its_argument_returns_the_parameter():
    model = nn.Linear(WIDTH, WIDTH)
    tencache.wrap(model, budget="100%")
    assert torch.as_tensor(model.weight) is model.weight


class Doubling(torch.Tensor):
    """A class of the user's that makes something else of an operation."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs or {})
        if getattr(func, "__name__", "") == "tanh":
            with torch._C.DisableTorchFunctionSubclass():
                return (result * 2).as_subclass(cls)
        return result


def _train_on(kind, **options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    cached = tencache.wrap(model, optimizer, **options) if options else None
    seen = []
    for step in range(3):
        x = torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(step)).as_subclass(kind)
        loss = model(x).square().mean()
        assert type(loss) is kind
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seen.append(loss.detach().as_subclass(torch.Tensor))
    if cached is not None:
        cached.unwrap()
    return seen, [parameter.detach() for parameter in model.parameters()]


@shows_kept("inputs of a tensor class of your own, which stays what its operations return")
@pytest.mark.parametrize("kind", [Own, Doubling])
def test_tensors_of_a_class_of_ones_own_stay_of_it(kind):
    assert same_tensors(_train_on(kind, budget="70%"), _train_on(kind))


@shows_refused("`.data` that does not begin at a multiple of 16 bytes", "use `.copy_()`")
def test_data_where_torch_may_round_differently():
    """A product with a vector begins with what is not aligned, and so adds up in another order."""
    model = nn.Linear(WIDTH, 1)
    tencache.wrap(model, budget="100%")
    with pytest.raises(RefusedError, match="multiple of 16 bytes"):
        model.weight.data = torch.zeros(WIDTH + 1)[1:].view(1, WIDTH)
