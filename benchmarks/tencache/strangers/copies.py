"""Averages, copies and checkpoints of a model in training."""

import copy
import io
import tempfile
from pathlib import Path
from typing import Any

import torch
from common import WIDTH, Wrap, adam, batch, fit, idiom, mlp, weights
from torch import nn


@idiom
def ema_of_swa_utils(wrap: Wrap) -> Any:
    """Average by the library, made before."""
    model = mlp()
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    optimizer = adam(model)
    wrap(model, optimizer)
    seen: list[Any] = []
    for step in range(3):
        seen += fit(model, optimizer, 1, lambda m, _, step=step: m(batch(step)).square().mean())
        average.update_parameters(model)
    return seen, weights(average), weights(model)


@idiom
def ema_made_after(wrap: Wrap) -> Any:
    """Average by the library, made of the wrapped model."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    average = torch.optim.swa_utils.AveragedModel(model)
    fit(model, optimizer)
    average.update_parameters(model)
    return weights(average)


@idiom
def ema_with_batch_norm(wrap: Wrap) -> Any:
    """Average, and take the statistics anew."""
    model = mlp(nn.BatchNorm1d(WIDTH))
    average = torch.optim.swa_utils.AveragedModel(model)
    optimizer = adam(model)
    wrap(model, optimizer)
    for step in range(3):
        fit(model, optimizer, 1, lambda m, _, step=step: m(batch(step)).square().mean())
        average.update_parameters(model)
    torch.optim.swa_utils.update_bn([batch(9), batch(10)], average)
    return weights(average)


@idiom
def ema_by_foreach(wrap: Wrap) -> Any:
    """Average all at once, as diffusion trainers do."""
    model = mlp()
    means = [p.detach().clone() for p in model.parameters()]
    optimizer = adam(model)
    wrap(model, optimizer)
    for step in range(3):
        fit(model, optimizer, 1, lambda m, _, step=step: m(batch(step)).square().mean())
        with torch.no_grad():
            torch._foreach_lerp_(means, list(model.parameters()), 0.1)
    return means


@idiom
def deepcopy_of_the_model(wrap: Wrap) -> Any:
    """Copy the model in the middle."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    fit(model, optimizer)
    return weights(copy.deepcopy(model))


@idiom
def best_weights_kept(wrap: Wrap) -> Any:
    """Keep a copy of the state, train on, and go back."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    seen = fit(model, optimizer)
    best = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())
    seen += fit(model, optimizer)
    model.load_state_dict(best[0])
    optimizer.load_state_dict(best[1])
    return seen, fit(model, optimizer), weights(model)


@idiom
def state_dict_hooks(wrap: Wrap) -> Any:
    """Rename, cast and drop within state_dict()."""
    model = mlp()
    model.register_state_dict_post_hook(lambda _m, state, *_: state.update({k: v.half() for k, v in state.items()}))
    model.register_load_state_dict_pre_hook(lambda _m, state, *_: state.pop("0.bias", None))
    optimizer = adam(model)
    wrap(model, optimizer)
    seen = fit(model, optimizer)
    model.load_state_dict(model.state_dict(), strict=False)
    return seen, fit(model, optimizer), list(model.state_dict().values())


@idiom
def saved_and_resumed(wrap: Wrap) -> Any:
    """Write a checkpoint, and read it memory-mapped."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    fit(model, optimizer)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint.pt"
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
        found = torch.load(path, mmap=True)
        model.load_state_dict(found["model"])
        optimizer.load_state_dict(found["optimizer"])
        return fit(model, optimizer), weights(model)


@idiom
def whole_model_pickled(wrap: Wrap) -> Any:
    """Save the module itself."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    fit(model, optimizer)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return weights(torch.load(file, weights_only=False))
