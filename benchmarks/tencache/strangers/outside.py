"""Memory and threads that torch does not count: arrays, shared memory, files, readers beside the loop."""

import multiprocessing
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import IDIOMS, WIDTH, Wrap, adam, batch, fit, idiom, mlp, weights
from torch import nn


def _array(model: Any, name: str = "0.weight") -> Any:
    """Let a parameter be in the memory of an array, and return that."""
    weight = model.get_parameter(name)
    array = weight.detach().numpy().copy()
    weight.data = torch.from_numpy(array)
    return array


def _seeing(take: Callable[[Any], Any]) -> Callable[[Wrap], Any]:
    """Train a model whose weight lies elsewhere, and read and write it there."""

    def run(wrap: Wrap) -> Any:
        model = mlp()
        view = take(model)
        optimizer = adam(model)
        wrap(model, optimizer)
        seen = []
        for _ in range(3):
            seen += [*fit(model, optimizer, 2), torch.from_numpy(np.array(view))]
            view *= 0.5
        return seen, weights(model)

    return run


def _through_dlpack(model: Any) -> Any:
    array = model[0].weight.detach().numpy().copy()
    model[0].weight.data = torch.from_dlpack(array)
    return array


def _through_bytes(model: Any) -> Any:
    # An address as torch has them, so that rounding is the same.
    memory = bytearray(model[0].weight.nbytes + 64)
    start = -np.frombuffer(memory, np.uint8).ctypes.data % 64
    data = torch.frombuffer(memory, dtype=torch.float32, offset=start, count=model[0].weight.numel())
    model[0].weight.data = data.view_as(model[0].weight).copy_(model[0].weight.detach())
    return np.frombuffer(memory, np.float32, offset=start, count=WIDTH * WIDTH).reshape(WIDTH, WIDTH)


def _through_a_file(model: Any) -> Any:
    path = str(Path(tempfile.mkdtemp()) / "weight")
    model[0].weight.detach().numpy().tofile(path)
    shape = tuple(model[0].weight.shape)
    mapped = torch.from_file(path, shared=True, size=WIDTH * WIDTH).view(shape)
    model[0].weight.data = mapped
    del mapped
    return np.memmap(path, np.float32, "r+", shape=shape)


for _name, _take in {
    "weight_in_an_array": _array,
    "weight_given_by_dlpack": _through_dlpack,
    "weight_in_a_bytearray": _through_bytes,
    "weight_in_a_shared_file": _through_a_file,
}.items():
    IDIOMS[_name] = _seeing(_take)


@idiom
def array_assigned_midway(wrap: Wrap) -> Any:
    """A weight is given an array's memory between steps."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    seen = fit(model, optimizer, 2)
    array = _array(model)
    for _ in range(3):
        seen += [*fit(model, optimizer, 2), torch.from_numpy(array.copy())]
        array *= 0.5
    return seen, weights(model)


@idiom
def gradient_in_an_array(wrap: Wrap) -> Any:
    """Gradients are added up in arrays, which the loop reads and changes."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    seen = []
    arrays = {name: np.zeros(tuple(p.shape), np.float32) for name, p in model.named_parameters()}
    for name, parameter in model.named_parameters():
        parameter.grad = torch.from_numpy(arrays[name])
    for step in range(4):
        for part in range(2):
            model(batch(2 * step + part)).square().mean().backward()
        for array in arrays.values():
            seen.append(torch.from_numpy(array.copy()))
            np.multiply(array, 0.5, out=array)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    return seen, weights(model)


@idiom
def shared_before_with_a_process(wrap: Wrap) -> Any:
    """A worker, forked before, reads the weights from shared memory as training goes on."""
    model = mlp().share_memory()
    ask, answer = multiprocessing.get_context("fork").Pipe()

    def read() -> None:
        while ask.recv():
            ask.send(model[0].weight.detach().numpy().tobytes())

    worker = multiprocessing.get_context("fork").Process(target=read)
    worker.start()
    seen = []
    try:
        optimizer = adam(model)
        wrap(model, optimizer)
        for _ in range(3):
            seen += fit(model, optimizer, 1)
            answer.send(True)
            seen.append(torch.frombuffer(bytearray(answer.recv()), dtype=torch.float32))
    finally:
        answer.send(False)
        worker.join()
    return seen


@idiom
def shared_midway_with_a_process(wrap: Wrap) -> Any:
    """The model is put into shared memory while it is trained, and a worker reads it."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    seen = fit(model, optimizer, 2)
    model.share_memory()
    memory = model[0].weight.detach()
    ask, answer = multiprocessing.get_context("fork").Pipe()

    def read() -> None:
        while ask.recv():
            ask.send(memory.numpy().tobytes())

    worker = multiprocessing.get_context("fork").Process(target=read)
    worker.start()
    try:
        for _ in range(3):
            seen += fit(model, optimizer, 1)
            answer.send(True)
            seen.append(torch.frombuffer(bytearray(answer.recv()), dtype=torch.float32))
    finally:
        answer.send(False)
        worker.join()
    return seen


@idiom
def loaded_memory_mapped(wrap: Wrap) -> Any:
    """A model whose weights are those of a mapped checkpoint, assigned."""
    model = mlp()
    with tempfile.NamedTemporaryFile() as file:
        torch.save(model.state_dict(), file.name)
        model.load_state_dict(torch.load(file.name, mmap=True), assign=True)
        optimizer = adam(model)
        wrap(model, optimizer)
        return fit(model, optimizer, 4), weights(model)


@idiom
def read_by_a_thread(wrap: Wrap) -> Any:
    """A thread reads weights and writes checkpoints while forward and backward run."""
    model = mlp(mlp())
    optimizer = adam(model)
    wrap(model, optimizer)
    seen: list[Any] = []
    for step in range(5):
        found: list[Any] = []
        stop = threading.Event()

        def read(found: list[Any] = found, stop: threading.Event = stop) -> None:
            try:
                while not stop.is_set() or len(found) < 3:
                    found.append([value.clone() for value in model.state_dict().values()])
            except Exception as error:  # noqa: BLE001  told by whoever waits
                found.append(error)

        reader = threading.Thread(target=read)
        reader.start()
        loss = model(batch(step)).square().mean()
        loss.backward()
        stop.set()
        reader.join()
        for one in found:
            if isinstance(one, Exception):
                raise one
        first = found[0]
        assert all(torch.equal(a, b) for one in found for a, b in zip(first, one, strict=True))
        seen += [loss.detach().clone(), *first]
        optimizer.step()
        optimizer.zero_grad()
    return seen


@idiom
def saved_by_a_thread(wrap: Wrap) -> Any:
    """A checkpoint is written by a thread while the next step goes on."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    seen: list[Any] = []
    with tempfile.TemporaryDirectory() as folder:
        for step in range(4):
            seen += fit(model, optimizer, 1)
            snapshot = {name: value.clone() for name, value in model.state_dict().items()}
            state = optimizer.state_dict()
            moments = [value["exp_avg"].clone() for value in state["state"].values()]
            path = Path(folder) / str(step)
            writer = threading.Thread(target=torch.save, args=({"model": snapshot, "moments": moments}, path))
            writer.start()
            seen += fit(model, optimizer, 1)
            writer.join()
            loaded = torch.load(path)
            seen += [*loaded["model"].values(), *loaded["moments"]]
    return seen


@idiom
def evolution(wrap: Wrap) -> Any:
    """No gradients: weights are perturbed by seeded noise, judged, and put back (MeZO)."""
    model = mlp()
    wrap(model, None)
    seen = []
    for step in range(4):
        losses = []
        for sign in (1, -2, 1):
            generator = torch.Generator().manual_seed(step)
            for parameter in model.parameters():
                noise = torch.randn(parameter.shape, generator=generator)
                parameter.data.add_(noise, alpha=1e-2 * sign)
            with torch.no_grad():
                losses.append(model(batch(step)).square().mean())
        slope = float(losses[0] - losses[1]) / 2e-2
        generator = torch.Generator().manual_seed(step)
        for parameter in model.parameters():
            parameter.data = parameter.data - 1e-3 * slope * torch.randn(parameter.shape, generator=generator)
        seen += losses
    return seen, weights(model)


@idiom
def steps_by_hand(wrap: Wrap) -> Any:
    """No optimizer: `p -= rate * p.grad`, in three ways."""
    model = mlp()
    wrap(model, None)
    seen = []
    for step in range(6):
        loss = model(batch(step)).square().mean()
        loss.backward()
        seen.append(loss.detach().clone())
        with torch.no_grad():
            for parameter in model.parameters():
                if step % 3 == 0:
                    parameter.__isub__(0.05 * parameter.grad)
                elif step % 3 == 1:
                    parameter.data.add_(parameter.grad, alpha=-0.05)
                else:
                    parameter.copy_(parameter - 0.05 * parameter.grad)
                parameter.grad = None
    return seen, weights(model)


@idiom
def quantised_storage(wrap: Wrap) -> Any:
    """Frozen weights as whole numbers and as 8-bit floats, with scales that are trained."""

    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            whole = torch.randint(-127, 127, (WIDTH, WIDTH), dtype=torch.int8)
            self.whole = nn.Parameter(whole, requires_grad=False)
            self.packed = nn.Parameter((whole.view(torch.uint8) >> 4)[:, ::2].contiguous(), requires_grad=False)
            self.tiny = nn.Parameter(torch.randn(WIDTH, WIDTH).to(torch.float8_e4m3fn), requires_grad=False)
            self.mask = nn.Parameter(torch.rand(WIDTH) > 0.2, requires_grad=False)
            self.scale, self.out = nn.Parameter(torch.full((WIDTH, 1), 0.01)), nn.Linear(WIDTH, WIDTH)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.tanh(x @ (self.whole.float() * self.scale).T + x @ (self.tiny.to(x.dtype) * self.scale))
            y = y.masked_fill(~self.mask, 0.0)
            y = y + (self.packed & 7).sum(1).to(x.dtype) * 0.01
            return self.out(y)

    model = Small()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    wrap(model, optimizer)
    return fit(model, optimizer, 4), weights(model)
