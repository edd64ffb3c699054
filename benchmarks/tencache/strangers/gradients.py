"""What loops do with gradients, and through them."""

from typing import Any

import torch
from common import Wrap, adam, batch, fit, idiom, mlp, weights
from torch import nn


@idiom
def gradient_penalty(wrap: Wrap) -> Any:
    """Backward through the gradient of the input."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)

    def loss(model: Any, step: int) -> Any:
        x = batch(step).requires_grad_()
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        return slope.square().sum()

    return fit(model, optimizer, loss=loss), weights(model)


@idiom
def input_gradient_only(wrap: Wrap) -> Any:
    """Attack the input (FGSM), then train on what comes out."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)

    def loss(model: Any, step: int) -> Any:
        x = batch(step).requires_grad_()
        (slope,) = torch.autograd.grad(model(x).square().sum(), x)
        return model((x + 0.1 * slope.sign()).detach()).square().mean()

    return fit(model, optimizer, loss=loss), weights(model)


@idiom
def backward_for_some(wrap: Wrap) -> Any:
    """Accumulate into some parameters only."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    for step in range(3):
        model(batch(step)).square().mean().backward(inputs=[model[0].weight, model[3].bias])
        optimizer.step()
        optimizer.zero_grad()
    return weights(model), optimizer.state_dict()["state"]


@idiom
def hessian_vector(wrap: Wrap) -> Any:
    """Hessian-vector products by the functional interface."""
    model = mlp()
    wrap(model, adam(model))
    return torch.autograd.functional.hvp(lambda x: model(x).square().sum(), batch(0), batch(1))[1]


@idiom
def jacobian_of_the_input(wrap: Wrap) -> Any:
    """A Jacobian, row by row."""
    model = mlp()
    wrap(model, adam(model))
    return torch.autograd.functional.jacobian(lambda x: model(x).sum(0), batch(0))


@idiom
def per_sample_gradients(wrap: Wrap) -> Any:
    """Gradients of each row by vmap over grad, with detached weights."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    fit(model, optimizer)
    own = {name: p.detach() for name, p in model.named_parameters()}

    def one(own: Any, x: Any) -> Any:
        return torch.func.functional_call(model, own, (x[None],)).square().sum()

    return list(torch.func.vmap(torch.func.grad(one), in_dims=(None, 0))(own, batch(0)).values())


@idiom
def per_sample_gradients_of_the_parameters(wrap: Wrap) -> Any:
    """The same with the parameters themselves."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    fit(model, optimizer)
    own = dict(model.named_parameters())

    def one(own: Any, x: Any) -> Any:
        return torch.func.functional_call(model, own, (x[None],)).square().sum()

    return list(torch.func.vmap(torch.func.grad(one), in_dims=(None, 0))(own, batch(0)).values())


@idiom
def meta_learning(wrap: Wrap) -> Any:
    """An inner step by functional_call, and backward through it."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)

    def loss(model: Any, step: int) -> Any:
        own = dict(model.named_parameters())
        inner = torch.func.functional_call(model, own, (batch(step),)).square().mean()
        slopes = torch.autograd.grad(inner, list(own.values()), create_graph=True)
        new = {name: p - 0.1 * slope for (name, p), slope in zip(own.items(), slopes, strict=True)}
        return torch.func.functional_call(model, new, (batch(step + 9),)).square().mean()

    return fit(model, optimizer, loss=loss), weights(model)


@idiom
def first_order_meta_learning(wrap: Wrap) -> Any:
    """The same without backward through the inner step."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)

    def loss(model: Any, step: int) -> Any:
        own = dict(model.named_parameters())
        inner = torch.func.functional_call(model, own, (batch(step),)).square().mean()
        slopes = torch.autograd.grad(inner, list(own.values()))
        new = {name: p - 0.1 * slope for (name, p), slope in zip(own.items(), slopes, strict=True)}
        return torch.func.functional_call(model, new, (batch(step + 9),)).square().mean()

    return fit(model, optimizer, loss=loss), weights(model)


@idiom
def reptile(wrap: Wrap) -> Any:
    """Train inside, and move a part of the way."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    wrap(model, optimizer)
    seen: list[Any] = []
    for _ in range(3):
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        seen += fit(model, optimizer, 2)
        with torch.no_grad():
            for name, p in model.named_parameters():
                p.copy_(before[name] + 0.5 * (p - before[name]))
    return seen, weights(model)


@idiom
def several_losses(wrap: Wrap) -> Any:
    """Two losses over one graph, one after the other and both at once."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    for step in range(3):
        y = model(batch(step))
        y.square().mean().backward(retain_graph=True)
        torch.autograd.backward([y.abs().mean(), y.exp().mean()])
        optimizer.step()
        optimizer.zero_grad()
    return weights(model)


@idiom
def gradients_projected(wrap: Wrap) -> Any:
    """PCGrad: gradients of two tasks, one freed of what conflicts."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    for step in range(3):
        y = model(batch(step))
        own = list(model.parameters())
        one = torch.autograd.grad(y.square().mean(), own, retain_graph=True)
        two = torch.autograd.grad((y - 1).abs().mean(), own)
        for p, a, b in zip(own, one, two, strict=True):
            dot = (a * b).sum()
            p.grad = a + (b - a * dot / a.square().sum().clamp_min(1e-9) if dot < 0 else b)
        optimizer.step()
        optimizer.zero_grad()
    return weights(model)


@idiom
def gradient_noise_and_centering(wrap: Wrap) -> Any:
    """Change gradients in place before the step."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    for step in range(3):
        model(batch(step)).square().mean().backward()
        for p in model.parameters():
            p.grad.add_(torch.randn(p.shape) * 0.01)
            if p.dim() > 1:
                p.grad.sub_(p.grad.mean(1, keepdim=True))
        nn.utils.clip_grad_norm_(model.parameters(), 0.5, error_if_nonfinite=True)
        optimizer.step()
        optimizer.zero_grad()
    return weights(model)


@idiom
def adaptive_clipping(wrap: Wrap) -> Any:
    """AGC: clip by the norm of each weight."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    for step in range(3):
        model(batch(step)).square().mean().backward()
        for p in model.parameters():
            limit = p.detach().norm().clamp_min(1e-3) * 0.01
            p.grad.detach().mul_((limit / p.grad.norm().clamp_min(1e-6)).clamp(max=1.0))
        optimizer.step()
        optimizer.zero_grad()
    return weights(model)
