"""Contexts around a loop, and tools that look into a model."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from common import IDIOMS, WIDTH, Idiom, Wrap, adam, batch, fit, idiom, mlp, weights


def _within(context: Callable[[], Any]) -> Idiom:
    def run(wrap: Wrap) -> Any:
        model = mlp()
        optimizer = adam(model)
        wrap(model, optimizer)
        with context():
            seen = fit(model, optimizer)
        return seen, fit(model, optimizer), weights(model)

    return run


def _profiled() -> Any:
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])


def _counting_flops() -> Any:
    from torch.utils.flop_counter import FlopCounterMode

    return FlopCounterMode(display=False)


CONTEXTS: dict[str, Callable[[], Any]] = {
    "anomalies_detected": lambda: torch.autograd.detect_anomaly(check_nan=True),
    "profiled": _profiled,
    "flops_counted": _counting_flops,
    "saved_on_cpu": torch.autograd.graph.save_on_cpu,
    "saved_tensor_hooks_forbidden": lambda: torch.autograd.graph.disable_saved_tensors_hooks("not here"),
    "saved_tensors_may_change": torch.autograd.graph.allow_mutation_on_saved_tensors,
    "one_thread_in_backward": lambda: torch.autograd.set_multithreading_enabled(False),
    "deterministic": lambda: _flag(torch.use_deterministic_algorithms),
    "default_dtype_double": lambda: _default_dtype(torch.float64),
    "default_device": lambda: torch.device("cpu"),
    "math_attention": lambda: torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
    "autocast_over_all": lambda: torch.autocast("cpu", torch.bfloat16),
}
for _name, _context in CONTEXTS.items():
    IDIOMS[_name] = _within(_context)


@contextlib.contextmanager
def _flag(switch: Callable[[bool], Any]) -> Iterator[None]:
    switch(True)
    try:
        yield
    finally:
        switch(False)


@contextlib.contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    was = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(was)


@idiom
def compiled_part(wrap: Wrap) -> Any:
    """A compiled part inside."""
    model = mlp()
    model[0] = torch.compile(model[0], backend="eager")
    optimizer = adam(model)
    wrap(model, optimizer)
    return fit(model, optimizer, 2), weights(model)


@idiom
def compiled_whole(wrap: Wrap) -> Any:
    """A compiled call of the wrapped model."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    return fit(torch.compile(model, backend="eager"), optimizer, 2), weights(model)


@idiom
def symbolically_traced(wrap: Wrap) -> Any:
    """A graph module made of the wrapped model, trained."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    return fit(torch.fx.symbolic_trace(model), optimizer), weights(model)


@idiom
def exported(wrap: Wrap) -> Any:
    """torch.export of a model in training."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    fit(model, optimizer)
    return torch.export.export(model, (batch(0),)).module()(batch(1)).detach()


@idiom
def traced_by_jit(wrap: Wrap) -> Any:
    """torch.jit.trace of a model in training."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    fit(model, optimizer)
    return torch.jit.trace(model, batch(0))(batch(1)).detach()


@idiom
def hooks_that_log(wrap: Wrap) -> Any:
    """Hooks on everything, as loggers set them."""
    model = mlp()
    seen: list[Any] = []
    for module in model:
        module.register_forward_hook(lambda _m, _i, out: seen.append(out.detach().norm()))
        module.register_full_backward_hook(lambda _m, _i, out: seen.append(out[0].norm()))
    for p in model.parameters():
        p.register_hook(lambda gradient: seen.append(gradient.norm().clone()))
    optimizer = adam(model)
    wrap(model, optimizer)
    return fit(model, optimizer), seen, weights(model)


@idiom
def features_taken_out(wrap: Wrap) -> Any:
    """Hooks that keep activations, which join the loss."""
    model = mlp()
    kept: dict[str, Any] = {}
    model[1].register_forward_hook(lambda _m, _i, out: kept.update(out=out))
    optimizer = adam(model)
    wrap(model, optimizer)
    return fit(model, optimizer, loss=lambda m, s: m(batch(s)).square().mean() + kept["out"].abs().mean()), weights(
        model
    )


@idiom
def forked_loader(wrap: Wrap) -> Any:
    """A data loader with workers."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    data = torch.utils.data.TensorDataset(batch(0, 24, WIDTH))
    seen = []
    for _ in range(2):
        for (x,) in torch.utils.data.DataLoader(data, 6, num_workers=2, persistent_workers=False):
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            seen.append(loss.detach().clone())
    return seen, weights(model)


@idiom
def loader_that_uses_the_model(wrap: Wrap) -> Any:
    """Workers that embed their samples by the model, as it is at the fork."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    fit(model, optimizer)

    class Embedded(torch.utils.data.Dataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> Any:
            with torch.no_grad():
                return model(batch(index))

    seen = list(torch.utils.data.DataLoader(Embedded(), 2, num_workers=1, timeout=60))
    return seen, fit(model, optimizer), weights(model)


@idiom
def trained_in_another_thread(wrap: Wrap) -> Any:
    """The loop runs in a thread, the evaluation after it in this one."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    seen: list[Any] = []

    def loop() -> None:
        # A new thread takes over the number of threads only when it is asked, or computes with several.
        torch.get_num_threads()
        seen.extend(fit(model, optimizer))

    thread = threading.Thread(target=loop)
    thread.start()
    thread.join()
    with torch.no_grad():
        seen.append(model(batch(0)))
    assert len(seen) > 1, "the thread has failed"
    return seen, weights(model)
