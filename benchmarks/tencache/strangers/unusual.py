"""Modules, functions and loops that few programs have, and that torch allows."""

import copy
import gc
import pickle
import signal
import tempfile
from collections.abc import Iterator
from typing import Any

import torch
from common import ROWS, WIDTH, Wrap, adam, batch, fit, idiom, mlp, weights
from torch import nn
from torch.nn import functional
from torch.nn.utils import prune
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop


def _square(out: torch.Tensor) -> torch.Tensor:
    return out.float().square().mean()


def _gradients(model: Any) -> list[Any]:
    return [None if p.grad is None else (p.grad.clone(), list(p.grad.stride())) for p in model.parameters()]


@idiom
def frozen_between_forward_and_backward(wrap: Wrap) -> Any:
    """Weights are frozen and thawed while a graph is alive."""
    model = mlp(mlp())
    optimizer = adam(model)
    wrap(model, optimizer)
    seen = []
    for step in range(5):
        model[step % 2].requires_grad_(False) if step % 2 == 0 else None
        loss = _square(model(batch(step)))
        model.requires_grad_(step % 3 != 0)
        (loss + 0 * sum(x.sum() for x in [loss])).backward() if loss.requires_grad else None
        model.requires_grad_(True)
        seen += [loss.detach().clone(), *_gradients(model)]
        optimizer.step()
        optimizer.zero_grad()
    return seen, weights(model)


@idiom
def thawed_between_forward_and_backward(wrap: Wrap) -> Any:
    """A part is frozen in forward, and thawed before backward and step()."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    seen = []
    for step in range(5):
        model[0].requires_grad_(False)
        loss = _square(model(batch(step)))
        model[0].requires_grad_(True)
        loss.backward()
        seen += [loss.detach().clone(), *_gradients(model)]
        optimizer.step()
        optimizer.zero_grad(set_to_none=step % 2 == 0)
    return seen, weights(model)


class Reversible(torch.autograd.Function):
    """Computes two halves without a graph, and takes them back in backward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, f: Any, g: Any) -> torch.Tensor:
        a, b = x.chunk(2, 1)
        with torch.no_grad():
            a = a + f(b)
            b = b + g(a)
        ctx.f, ctx.g = f, g
        out = torch.cat([a, b], 1)
        ctx.save_for_backward(out.detach())
        return out

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> Any:
        (out,) = ctx.saved_tensors
        a, b = out.chunk(2, 1)
        da, db = slopes[0].chunk(2, 1)
        with torch.enable_grad():
            a = a.detach().requires_grad_()
            ga = ctx.g(a)
        torch.autograd.backward(ga, db)
        with torch.no_grad():
            b = b - ga
            da = da + a.grad
        with torch.enable_grad():
            b = b.detach().requires_grad_()
            fb = ctx.f(b)
        torch.autograd.backward(fb, da)
        return torch.cat([da, db + b.grad], 1), None, None


@idiom
def reversible(wrap: Wrap) -> Any:
    """A RevNet: backward within backward, which accumulates into parameters."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            half = WIDTH // 2
            self.fs = nn.ModuleList(nn.Sequential(nn.Linear(half, half), nn.GELU()) for _ in range(3))
            self.gs = nn.ModuleList(nn.Sequential(nn.Linear(half, half), nn.Tanh()) for _ in range(3))
            self.first = nn.Linear(WIDTH, WIDTH)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.first(x)
            for f, g in zip(self.fs, self.gs, strict=True):
                x = Reversible.apply(x, f, g)
            return x

    model = Net()
    optimizer = adam(model)
    wrap(model, optimizer)
    return fit(model, optimizer, 4), weights(model)


@idiom
def equilibrium(wrap: Wrap) -> Any:
    """A deep equilibrium model: a fixed point, and a hook that solves for its gradient."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
            nn.init.uniform_(self.inner.weight, -0.05, 0.05)

        def cell(self, z: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(self.inner(z) + x)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                z = torch.zeros_like(x)
                for _ in range(6):
                    z = self.cell(z, x)
            z = self.cell(z, x)
            if self.training:
                z0 = z.detach().requires_grad_()
                f0 = self.cell(z0, x)

                def solve(slope: torch.Tensor) -> torch.Tensor:
                    found = slope
                    for _ in range(4):
                        found = torch.autograd.grad(f0, z0, found, retain_graph=True)[0] + slope
                    return found

                z.register_hook(solve)
            return self.out(z)

    model = Net()
    optimizer = adam(model)
    wrap(model, optimizer)
    return fit(model, optimizer, 4), weights(model)


@idiom
def forces_in_evaluation(wrap: Wrap) -> Any:
    """An energy whose slope by the input is a result, in evaluation too."""

    class Energy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.enable_grad():
                x = x.detach().requires_grad_()
                return -torch.autograd.grad(self.net(x).square().sum(), x)[0]

    model = Energy()
    optimizer = adam(model)
    wrap(model, optimizer)
    seen = []
    for step in range(3):
        seen += fit(model, optimizer, 1, lambda m, s: _square(m.net(batch(s))))
        with torch.no_grad():
            seen.append(model(batch(step)))
    return seen, weights(model)


class FusedGradient(torch.autograd.Function):
    """A product that adds its weight's gradient to `.grad` by itself."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, module: Any) -> torch.Tensor:
        ctx.module = module
        ctx.save_for_backward(x)
        return x @ module.weight.T

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        weight = ctx.module.weight
        gradient = slopes[0].T @ x
        if weight.grad is None:
            weight.grad = gradient
        else:
            weight.grad.add_(gradient)
        return slopes[0] @ weight.detach(), None


@idiom
def gradient_added_by_the_function(wrap: Wrap) -> Any:
    """A function's backward reads the weight, and adds to `.grad` by itself."""

    class Fused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH) / 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return FusedGradient.apply(x, self)

    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), Fused(), nn.Linear(WIDTH, WIDTH), Fused())
    optimizer = adam(model)
    wrap(model, optimizer)
    seen = []
    for step in range(4):
        for part in range(2):
            loss = _square(model(batch(2 * step + part)))
            loss.backward()
        seen += [loss.detach().clone(), *_gradients(model)]
        optimizer.step()
        optimizer.zero_grad()
    return seen, weights(model)


@idiom
def main_gradients(wrap: Wrap) -> Any:
    """Megatron: each landed gradient is added to `main_grad` in fp32, and put back before the step."""
    model = mlp().to(torch.bfloat16)
    optimizer = adam(model)
    wrap(model, optimizer)

    def land(p: Any) -> None:
        p.main_grad.add_(p.grad.float())
        p.grad = None

    for p in model.parameters():
        p.main_grad = torch.zeros(p.shape)
        p.tensor_model_parallel = True
        p.register_post_accumulate_grad_hook(land)
    seen = []
    for step in range(4):
        for part in range(3):
            loss = _square(model(batch(3 * step + part).bfloat16()))
            loss.backward()
        seen.append(loss.detach().clone())
        for p in model.parameters():
            p.grad = (p.main_grad / 3).to(p.dtype)
            p.main_grad.zero_()
        optimizer.step()
        optimizer.zero_grad()
    assert all(p.tensor_model_parallel for p in model.parameters())
    return seen, weights(model)


@idiom
def accumulation_nodes(wrap: Wrap) -> Any:
    """Hooks on the nodes that accumulate gradients, reached by `expand_as`."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    kept, seen = [], []
    for p in model.parameters():
        node = p.expand_as(p).grad_fn.next_functions[0][0]
        node.register_hook(lambda *_, p=p: seen.append(p.grad.detach().clone()))
        kept.append(node)
    seen2 = fit(model, optimizer, 4)
    return seen, seen2, weights(model)


@idiom
def one_gradient_for_two(wrap: Wrap) -> Any:
    """Two weights share one tensor as their gradient."""
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))
    optimizer = adam(model)
    wrap(model, optimizer)
    seen = []
    for step in range(4):
        shared = torch.zeros(WIDTH, WIDTH)
        model[0].weight.grad = shared
        model[2].weight.grad = shared
        loss = _square(model(batch(step)))
        loss.backward()
        seen += [loss.detach().clone(), shared.clone()]
        optimizer.step()
        optimizer.zero_grad()
    return seen, weights(model)


@idiom
def gradients_laid_out_otherwise(wrap: Wrap) -> Any:
    """Gradients whose strides are not the weight's, given before backward."""
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Conv1d(ROWS, ROWS, 3, padding=1), mlp())
    optimizer = adam(model)
    wrap(model, optimizer)
    seen = []
    for step in range(4):
        model[0].weight.grad = torch.ones(WIDTH, WIDTH).T.contiguous().T
        if step % 2:
            model[1].weight.grad = torch.zeros(ROWS, ROWS, 6)[..., ::2]
        loss = _square(model(batch(step)))
        loss.backward()
        seen += [loss.detach().clone(), *_gradients(model)]
        optimizer.step()
        optimizer.zero_grad()
    return seen, weights(model)


@idiom
def gradient_strides(wrap: Wrap) -> Any:
    """Gradients have the strides that autograd gives them."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv2d(8, 4, 3)).to(memory_format=torch.channels_last)
    model.register_parameter("turned", nn.Parameter(torch.randn(4, 8).T))
    optimizer = adam(model)
    wrap(model, optimizer)
    seen = []
    for step in range(3):
        out = model(batch(step, 2, 3, 8, 8).to(memory_format=torch.channels_last))
        loss = _square(out) + _square(out.mean((2, 3)) @ model.turned.T)
        loss.backward()
        seen += [loss.detach().clone(), *_gradients(model)]
        optimizer.step()
        optimizer.zero_grad()
    return seen, weights(model)


class Growing(nn.Module):
    """Yields what each layer makes, while it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.scale = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4)), nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor) -> Iterator[torch.Tensor]:
        for layer in self.layers:
            x = torch.tanh(layer(x)) * self.scale.sum()
            yield x


@idiom
def generator_forward(wrap: Wrap) -> Any:
    """A forward that is a generator: its layers run after it has returned."""
    model = Growing()
    optimizer = adam(model)
    wrap(model, optimizer)
    return fit(model, optimizer, 4, lambda m, s: sum(_square(x) for x in m(batch(s)))), weights(model)


class Rooted(nn.Module):
    """Has weights of its own beside its part."""

    def __init__(self) -> None:
        super().__init__()
        self.part, self.weight = mlp(), nn.Parameter(torch.randn(WIDTH, WIDTH) / 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(self.part(x), self.weight)


@idiom
def forward_called_by_name(wrap: Wrap) -> Any:
    """`model.forward(x)`, which calls no hooks."""
    model = Rooted()
    optimizer = adam(model)
    wrap(model, optimizer)
    return fit(model, optimizer, 4, lambda m, s: _square(m.forward(batch(s)))), weights(model)


@idiom
def parameters_used_outside(wrap: Wrap) -> Any:
    """The loss multiplies by weights of the model, after its forward, in many ways."""
    model = Rooted()
    optimizer = adam(model)
    wrap(model, optimizer)

    def loss(m: Any, s: int) -> Any:
        y = functional.linear(m(batch(s)), m.weight)
        y = torch.einsum("bi,ji->bj", y, m.part[0].weight) @ m.part[3].weight
        eye = torch.eye(WIDTH)
        orthogonal = (m.weight.T @ m.weight - eye).square().sum() + torch.linalg.matrix_norm(m.weight, "nuc")
        l1 = sum(p.abs().sum() for p in m.parameters())
        return _square(y) + 1e-3 * orthogonal + 1e-3 * l1 + 1e-3 * torch.linalg.slogdet(m.weight + 3 * eye)[1]

    return fit(model, optimizer, 4, loss), weights(model)


@idiom
def parameters_as_results(wrap: Wrap) -> Any:
    """A forward that returns parameters, which the loss uses."""

    class Prototypes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.prototypes = mlp(), nn.Parameter(torch.randn(5, WIDTH))

        def forward(self, x: torch.Tensor) -> dict[str, Any]:
            return {"features": self.net(x), "prototypes": self.prototypes}

    model = Prototypes()
    optimizer = adam(model)
    wrap(model, optimizer)

    def loss(m: Any, s: int) -> Any:
        out = m(batch(s))
        return torch.cdist(out["features"], out["prototypes"]).min(1).values.mean()

    return fit(model, optimizer, 4, loss), weights(model)


@idiom
def views_as_results(wrap: Wrap) -> Any:
    """A forward that returns a view of a weight."""

    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.table = mlp(), nn.Parameter(torch.randn(5, WIDTH))

        def forward(self, x: torch.Tensor) -> Any:
            return self.net(x), self.table[:3].T, self.table[0]

    model = Table()
    optimizer = adam(model)
    wrap(model, optimizer)

    def loss(m: Any, s: int) -> Any:
        y, table, row = m(batch(s))
        return _square(y @ table) + _square(y * row)

    return fit(model, optimizer, 4, loss), weights(model)


@idiom
def iterated_parameters(wrap: Wrap) -> Any:
    """Weights that are iterated over, indexed, sorted, split and asked by Python."""

    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.b = nn.Parameter(torch.randn(WIDTH, WIDTH) / 5), nn.Parameter(torch.randn(WIDTH))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = sum((x * row for row in self.w), torch.zeros_like(x))
            y = y + torch.stack([2 * row for row in self.w.unbind(1)]).sum(0) + self.w.unfold(1, 4, 4).sum(2).sum(1)
            y = y + self.b.sort(descending=True).values + self.b.topk(WIDTH).values + self.b.flip(0)
            y = y - (-self.w).abs()[1] + (self.w**2)[..., None, 0].T + 2**self.b + self.w.mT.sum(0)
            if self.b[0] > 0 and len(self.w) == WIDTH and self.b.max().item() > -5:
                y = y * float(self.b.mean()) + self.w.diagonal() + self.w.tril().sum(0) + self.w.roll(1, 0)[2]
            first, *rest = self.w.split(8)
            return y @ torch.cat([first, *rest]) + self.b.gather(0, self.b.argsort()) + self.w.amax(0)

    model = nn.Sequential(Odd(), mlp())
    optimizer = adam(model)
    wrap(model, optimizer)
    return fit(model, optimizer, 4), weights(model)


@idiom
def linear_algebra(wrap: Wrap) -> Any:
    """Decompositions, inverses, transforms and grids of weights."""

    class Algebra(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.grid = nn.Parameter(torch.randn(8, 8) / 5), nn.Parameter(torch.rand(1, 3, 8, 8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x[:, :8]
            spd = self.w @ self.w.T + torch.eye(8)
            y = torch.linalg.solve(spd, x.T).T + x @ torch.linalg.inv(spd) + x @ torch.matrix_exp(self.w)
            y = (
                y
                + x @ torch.linalg.qr(self.w + 2 * torch.eye(8))[0]
                + torch.cholesky_solve(x.T, torch.linalg.cholesky(spd)).T
            )
            y = y + torch.fft.irfft(torch.fft.rfft(self.w, dim=1) * torch.fft.rfft(x[:1], dim=1), n=8)[:ROWS]
            at = torch.tanh(y)[:, :2].view(1, 1, ROWS, 2)
            grid = functional.interpolate(functional.pad(self.grid, (1, 1)), (12, 12), mode="bilinear")
            found = functional.grid_sample(grid, at, align_corners=False)[0, :, 0].T
            kernel = self.grid.transpose(0, 1)[:, :, :3, :3]
            return y * found.sum(1, keepdim=True) + functional.conv2d(y.view(1, 1, ROWS, 8), kernel).sum()

    model = nn.Sequential(Algebra(), nn.Linear(8, WIDTH), mlp())
    optimizer = adam(model)
    wrap(model, optimizer)
    return fit(model, optimizer, 4), weights(model)


@idiom
def functional_calls(wrap: Wrap) -> Any:
    """functional_call with the parameters themselves, with made ones, and with stacked ones of two models."""
    one, two = mlp(), mlp()
    both = nn.ModuleList([one, two])
    optimizer = adam(both)
    wrap(both, optimizer)

    def loss(m: Any, s: int) -> Any:
        x = batch(s)
        own = dict(m[0].named_parameters())
        y = torch.func.functional_call(m[0], own, (x,)) + torch.func.functional_call(
            m[0], {k: v * 0.5 + o for (k, v), o in zip(own.items(), m[1].parameters(), strict=True)}, (x,)
        )
        stacked = {k: torch.stack([v, dict(m[1].named_parameters())[k]]) for k, v in own.items()}
        z = torch.vmap(lambda p: torch.func.functional_call(m[0], p, (x,)))(stacked)
        return _square(y) + _square(z)

    return fit(both, optimizer, 4, loss), weights(both)


@idiom
def layers_exchanged(wrap: Wrap) -> Any:
    """Layers change places, leave and come back; biases are taken away; weights are tied; a new head is put on."""
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(5)))
    optimizer = adam(model)
    wrap(model, optimizer)
    seen = fit(model, optimizer, 2)
    model[0], model[2] = model[2], model[0]
    seen += fit(model, optimizer, 2)
    gone = model.pop(4)
    seen += fit(model, optimizer, 2)
    model.append(gone)
    model[1].bias = None
    del model[3].bias
    model[3].register_parameter("bias", None)
    seen += fit(model, optimizer, 2)
    model[1].weight = model[0].weight
    seen += fit(model, optimizer, 2)
    head = nn.Linear(WIDTH, 3)
    nn.init.constant_(head.weight, 0.1)
    nn.init.constant_(head.bias, 0.2)
    model.append(head)
    optimizer.add_param_group({"params": head.parameters()})
    seen += fit(model, optimizer, 3)
    return seen, weights(model)


@idiom
def parameter_replaced(wrap: Wrap) -> Any:
    """A parameter is replaced by another one, of another size, and the optimizer told of it."""
    model = nn.Sequential(nn.Embedding(6, WIDTH), mlp())
    optimizer = adam(model)
    wrap(model, optimizer)
    tokens = torch.arange(6)
    seen = fit(model, optimizer, 2, lambda m, _: _square(m(tokens)))
    old = model[0].weight
    new = nn.Parameter(torch.cat([old.detach(), torch.full((2, WIDTH), 0.1)]))
    model[0].weight = new
    group = optimizer.param_groups[0]
    group["params"] = [new if p is old else p for p in group["params"]]
    optimizer.state.pop(old, None)
    seen += fit(model, optimizer, 3, lambda m, _: _square(m(torch.arange(8))))
    return seen, weights(model)


@idiom
def neurons_revived(wrap: Wrap) -> Any:
    """Rows of weights and of the optimizer's state are reset between steps."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    seen = []
    for step in range(4):
        seen += fit(model, optimizer, 1)
        with torch.no_grad():
            model[0].weight[step] = 0.1
            model[0].bias[step : step + 2].zero_()
            optimizer.state[model[0].weight]["exp_avg"][step] = 0
            optimizer.state[model[0].bias]["exp_avg_sq"][step] = 0
        model[3].reset_parameters() if step == 1 else None
        nn.init.orthogonal_(model[3].weight) if step == 2 else None
    return seen, weights(model)


@idiom
def states_in_order(wrap: Wrap) -> Any:
    """The optimizer's states, by position."""
    model = mlp(mlp())
    optimizer = torch.optim.Adam([{"params": model[4].parameters()}, {"params": model[:4].parameters(), "lr": 0.1}])
    wrap(model, optimizer)
    seen: list[Any] = []
    for _ in range(3):
        seen += fit(model, optimizer, 1)
        seen += [value.clone() for state in optimizer.state.values() for value in state.values()]
        seen += [[str(key) for key in state] for state in optimizer.state_dict()["state"].values()]
        seen.append(list(optimizer.state_dict()["state"]))
    return seen


@idiom
def other_optimizer_midway(wrap: Wrap) -> Any:
    """A second optimizer takes over, made while the model is wrapped, with the first one's state."""
    model = mlp()
    first = adam(model)
    wrap(model, first)
    seen = fit(model, first, 2)
    second = adam(model)
    second.load_state_dict(first.state_dict())
    seen += fit(model, second, 3)
    third = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    seen += fit(model, third, 2)
    seen += fit(model, first, 2)
    return seen, weights(model)


@idiom
def step_of_the_class(wrap: Wrap) -> Any:
    """`AdamW.step(optimizer)`, the functional form, and a step that was replaced."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    seen = fit(model, optimizer, 2)
    for step in range(2):
        loss = _square(model(batch(step)))
        loss.backward()
        torch.optim.AdamW.step(optimizer)
        optimizer.zero_grad()
        seen.append(loss.detach().clone())
    calls = []
    inner = optimizer.step

    def step(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        return inner(*arguments, **named)

    optimizer.step = step
    seen += fit(model, optimizer, 2)
    return seen, weights(model), len(calls)


@idiom
def optimizer_copied(wrap: Wrap) -> Any:
    """The optimizer is copied and pickled in the middle."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    seen = fit(model, optimizer, 2)
    other = copy.deepcopy(optimizer)
    seen += [value["exp_avg"].clone() for value in other.state_dict()["state"].values()]
    again = pickle.loads(pickle.dumps(optimizer))
    seen += [value["exp_avg"].clone() for value in again.state_dict()["state"].values()]
    seen += fit(model, optimizer, 2)
    return seen, weights(model)


@idiom
def schedulers_made_after(wrap: Wrap) -> Any:
    """Schedulers and a scaler that are made once the optimizer is wrapped, and saved."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    one = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=20)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    seen = []
    for step in range(5):
        loss = _square(model(batch(step)))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_value_(model.parameters(), 0.05)
        scaler.step(optimizer)
        scaler.update()
        one.step()
        optimizer.zero_grad()
        seen += [loss.detach().clone(), torch.tensor(one.get_last_lr())]
        if step == 2:
            state = copy.deepcopy((one.state_dict(), scaler.state_dict(), optimizer.state_dict()))
            one.load_state_dict(state[0])
            scaler.load_state_dict(state[1])
            optimizer.load_state_dict(state[2])
    return seen, weights(model)


@idiom
def wrapped_in_the_middle(wrap: Wrap) -> Any:
    """Wrapped when gradients and state are there, between forward and backward."""
    model = mlp()
    optimizer = adam(model)
    seen = fit(model, optimizer, 2)
    _square(model(batch(7))).backward()
    loss = _square(model(batch(8)))
    wrap(model, optimizer)
    loss.backward()
    _square(model(batch(9))).backward()
    seen += _gradients(model)
    optimizer.step()
    optimizer.zero_grad()
    return seen + fit(model, optimizer, 3), weights(model)


@idiom
def wrapped_twice(wrap: Wrap) -> Any:
    """Unwrapped with gradients on their way, and wrapped again."""
    model = mlp()
    optimizer = adam(model)
    seen = []
    for _ in range(3):
        cached = wrap(model, optimizer)
        seen += fit(model, optimizer, 2)
        _square(model(batch(5))).backward()
        loss = _square(model(batch(6)))
        cached.unwrap() if cached is not None else None
        loss.backward()
        seen += _gradients(model)
        optimizer.step()
        optimizer.zero_grad()
    return seen, weights(model)


@idiom
def part_wrapped(wrap: Wrap) -> Any:
    """Only the body is wrapped; a head of its own is trained beside it."""
    body, head = mlp(), nn.Linear(WIDTH, 2)
    of_body, of_head = adam(body), adam(head)
    wrap(body, of_body)
    seen = []
    for step in range(4):
        loss = _square(head(body(batch(step))))
        loss.backward()
        seen.append(loss.detach().clone())
        of_body.step()
        of_head.step()
        of_body.zero_grad()
        of_head.zero_grad()
    return seen, weights(body), weights(head)


@idiom
def optimizer_for_each_layer(wrap: Wrap) -> Any:
    """Local losses, with an optimizer for each layer, of which only one was given to wrap()."""
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(3)))
    optimizers = [adam(layer) for layer in model]
    wrap(model, optimizers[0])
    seen = []
    for step in range(4):
        x = batch(step)
        for layer, optimizer in zip(model, optimizers, strict=True):
            x = torch.tanh(layer(x.detach()))
            loss = _square(x - 0.5)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            seen.append(loss.detach().clone())
    return seen, weights(model)


@idiom
def kronecker_factors(wrap: Wrap) -> Any:
    """K-FAC: hooks gather inputs and slopes, and gradients are preconditioned before the step."""
    model = mlp(mlp())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    wrap(model, optimizer)
    inputs: dict[Any, Any] = {}
    slopes: dict[Any, Any] = {}
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    for layer in layers:
        layer.register_forward_pre_hook(lambda m, args: inputs.__setitem__(m, args[0].detach()))
        layer.register_full_backward_hook(lambda m, _, out: slopes.__setitem__(m, out[0].detach()))
    seen = []
    for step in range(4):
        loss = _square(model(batch(step)))
        loss.backward()
        for layer in layers:
            a = inputs[layer].T @ inputs[layer] / ROWS + 0.1 * torch.eye(WIDTH)
            g = slopes[layer].T @ slopes[layer] + 0.1 * torch.eye(WIDTH)
            layer.weight.grad.copy_(torch.linalg.solve(g, layer.weight.grad) @ torch.linalg.inv(a))
        seen.append(loss.detach().clone())
        optimizer.step()
        optimizer.zero_grad()
    return seen, weights(model)


@idiom
def global_hooks(wrap: Wrap) -> Any:
    """Hooks on all modules of the program, and on the wrapped one itself, that use its weights."""
    model = Rooted()
    optimizer = adam(model)
    wrap(model, optimizer)
    seen: list[Any] = []
    handles = [
        nn.modules.module.register_module_forward_hook(lambda _m, _, out: out * 1.01),
        nn.modules.module.register_module_forward_pre_hook(lambda *_: None),
        nn.modules.module.register_module_full_backward_hook(lambda m, _, __: seen.append(type(m).__name__)),
        model.register_forward_hook(lambda m, _, out: out @ m.weight),
        model.register_forward_pre_hook(lambda m, args: (args[0] @ m.weight,)),
        model.register_full_backward_pre_hook(lambda m, out: (out[0] * m.weight.mean().item(),)),
    ]
    try:
        return fit(model, optimizer, 4), weights(model), seen
    finally:
        for handle in handles:
            handle.remove()


class Merging(nn.Module):
    """Merges its adapter into the weight for evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH) / 5, requires_grad=False)
        self.down, self.up = nn.Parameter(torch.randn(2, WIDTH) / 5), nn.Parameter(torch.randn(WIDTH, 2) / 5)
        self.merged = False

    def train(self, mode: bool = True) -> Any:
        if mode == self.merged:
            self.weight.data += (self.up @ self.down).data * (-1 if mode else 1)
            self.merged = not mode
        return super().train(mode)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.linear(x, self.weight)
        norm = (self.weight + self.up @ self.down).norm(dim=1).detach()
        return (y if self.merged else y + x @ self.down.T @ self.up.T) / norm


@idiom
def adapters_merged(wrap: Wrap) -> Any:
    """LoRA merged on eval() and taken out again on train(), with DoRA's norm."""
    model = nn.Sequential(Merging(), nn.Tanh(), Merging())
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    wrap(model, optimizer)
    seen = []
    for step in range(3):
        seen += fit(model, optimizer, 2)
        model.eval()
        with torch.no_grad():
            seen.append(model(batch(step)))
        model.train()
    return seen, weights(model)


@idiom
def masters_by_hand(wrap: Wrap) -> Any:
    """A model in bf16, an optimizer on fp32 copies, gradients and weights carried by hand."""
    model = mlp().to(torch.bfloat16)
    masters = [p.detach().clone().float().requires_grad_() for p in model.parameters()]
    optimizer = torch.optim.AdamW(masters, lr=1e-2)
    wrap(model, None)
    seen = []
    for step in range(4):
        loss = _square(model(batch(step).bfloat16()))
        (loss * 8).backward()
        for master, p in zip(masters, model.parameters(), strict=True):
            master.grad = p.grad.float() / 8
        optimizer.step()
        for master, p in zip(masters, model.parameters(), strict=True):
            p.data.copy_(master.data)
        model.zero_grad()
        seen.append(loss.detach().clone())
    return seen, weights(model)


@idiom
def checkpointing_options(wrap: Wrap) -> Any:
    """Checkpointing with its options: no random state, no early stop, contexts, functions with keywords."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(nn.Sequential(mlp(), nn.Dropout(0.1)) for _ in range(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x + checkpoint(self.blocks[0], x, use_reentrant=False, preserve_rng_state=True)
            with set_checkpoint_early_stop(False):
                x = x + checkpoint(lambda y, *, by: self.blocks[1](y) * by, x, use_reentrant=False, by=2.0)
            return x + checkpoint(self.blocks[2], x, use_reentrant=True)

    model = Net()
    optimizer = adam(model)
    wrap(model, optimizer)
    return fit(model, optimizer, 4), weights(model)


@idiom
def autocasts_nested(wrap: Wrap) -> Any:
    """Autocasts within autocasts, as decorators, to three precisions, with the cache cleared in between."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

        @torch.autocast("cpu", torch.bfloat16)
        def half(self, x: torch.Tensor) -> torch.Tensor:
            return self.one(x) @ self.two.weight.to(torch.bfloat16)

        @torch.autocast("cpu", enabled=False)
        def whole(self, x: torch.Tensor) -> torch.Tensor:
            return self.one(x.float())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.half(x).float()
            # Its cache does not know of precisions: what was cast to one would be taken for the other.
            torch.clear_autocast_cache()
            with torch.autocast("cpu", torch.float16):
                y = y + self.two(self.one(x)).float()
                torch.clear_autocast_cache()
                with torch.autocast("cpu", torch.bfloat16):
                    y = y.float() + self.one(x)
            torch.clear_autocast_cache()
            return self.whole(y) + self.half(y.float())

    model = Net()
    optimizer = adam(model)
    wrap(model, optimizer)
    seen = fit(model, optimizer, 3)

    def within(m: Any, s: int) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return _square(m(batch(s)))

    return seen + fit(model, optimizer, 3, within), weights(model)


@idiom
def autocast_switched_on(wrap: Wrap) -> Any:
    """Autocast switched on by its flags, without a context."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    torch.set_autocast_enabled("cpu", True)
    try:
        return fit(model, optimizer, 4), weights(model)
    finally:
        torch.set_autocast_enabled("cpu", False)
        torch.clear_autocast_cache()


class Scaled(torch.autograd.Function):
    """Scales rows, written with setup_context and cast by amp."""

    @staticmethod
    def forward(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return x * weight

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, _: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> Any:
        x, weight = ctx.saved_tensors
        return slopes[0] * weight, (slopes[0] * x).sum(0)


@torch.library.custom_op("strangers::twice", mutates_args=())
def twice(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Multiply, twice."""
    return x @ weight @ weight


def _twice_context(ctx: Any, inputs: Any, output: Any) -> None:
    del output
    ctx.save_for_backward(*inputs)


def _twice_backward(ctx: Any, slope: torch.Tensor) -> Any:
    x, weight = ctx.saved_tensors
    return slope @ weight.T @ weight.T, x.T @ (slope @ weight.T) + (x @ weight).T @ slope


twice.register_autograd(_twice_backward, setup_context=_twice_context)


@idiom
def operators_of_ones_own(wrap: Wrap) -> Any:
    """Operators registered with torch.library, and those of aten by name, given parameters."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.b = nn.Parameter(torch.randn(WIDTH, WIDTH) / 5), nn.Parameter(torch.randn(WIDTH))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = twice(x, self.w) + torch.ops.aten.addmm.default(self.b, x, torch.ops.aten.t(self.w))
            y = torch.ops.aten.linear(y, self.w, self.b) + torch.ops.aten.matmul(y, self.w)
            return Scaled.apply(y, self.b.view_as(self.b)) + torch.Tensor.matmul(y, self.w)

    model = nn.Sequential(Net(), mlp())
    optimizer = adam(model)
    wrap(model, optimizer)
    return fit(model, optimizer, 4), weights(model)


@idiom
def interrupted_in_the_step(wrap: Wrap) -> Any:
    """Ctrl-C and errors in hooks around the step, in the scheduler, in backward, in the loss."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    seen: list[Any] = []

    class StopError(Exception):
        pass

    def fail(*_: Any) -> None:
        raise StopError

    def interrupt(*_: Any) -> None:
        signal.raise_signal(signal.SIGINT)

    for step, (before, hook) in enumerate(
        [(True, fail), (False, fail), (True, interrupt), (False, interrupt), (True, None)]
    ):
        handle = None
        if hook is not None:
            register = optimizer.register_step_pre_hook if before else optimizer.register_step_post_hook
            handle = register(hook)
        try:
            seen += fit(model, optimizer, 1)
        except (StopError, KeyboardInterrupt) as error:
            seen.append(type(error).__name__)
        if handle is not None:
            handle.remove()
        optimizer.zero_grad() if step % 2 else None
        seen += fit(model, optimizer, 1)
        tensor_hook = model[1].register_full_backward_hook(interrupt)
        try:
            seen += fit(model, optimizer, 1)
        except KeyboardInterrupt:
            seen.append("interrupted")
        tensor_hook.remove()
        optimizer.zero_grad()
    return seen, weights(model)


@idiom
def averaged_parametrizations(wrap: Wrap) -> Any:
    """Parametrizations, pruning and spectral norm, which are taken off in the middle."""
    model = nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Linear(WIDTH, WIDTH)),
        nn.utils.parametrizations.spectral_norm(nn.Linear(WIDTH, WIDTH)),
        nn.utils.spectral_norm(nn.Linear(WIDTH, WIDTH)),
    )
    prune.l1_unstructured(model[2], "bias", 0.3)
    optimizer = adam(model)
    wrap(model, optimizer)
    seen = fit(model, optimizer, 3)
    with torch.no_grad():
        seen.append(model[0].weight.clone())
        seen.append(nn.utils.parametrize.type_before_parametrizations(model[0]).__name__)
    prune.remove(model[2], "bias")
    seen += fit(model, optimizer, 2)
    return seen, weights(model)


@idiom
def parametrization_removed(wrap: Wrap) -> Any:
    """weight_norm is folded into the weight in the middle, and the weight trained by a new optimizer."""
    model = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(WIDTH, WIDTH)), nn.Linear(WIDTH, WIDTH))
    optimizer = adam(model)
    wrap(model, optimizer)
    seen = fit(model, optimizer, 3)
    nn.utils.parametrize.remove_parametrizations(model[0], "weight")
    other = adam(model)
    seen += fit(model, other, 3)
    return seen, weights(model)


@idiom
def collected_and_printed(wrap: Wrap) -> Any:
    """Everything is printed, formatted, hashed, compared and collected as the loop goes on."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    names = {p: name for name, p in model.named_parameters()}
    seen: list[Any] = []
    for step in range(4):
        seen += fit(model, optimizer, 1)
        gc.collect()
        for p in model.parameters():
            seen.append(f"{names[p]} {tuple(p.shape)} {p.dtype} {p.numel()} {p.is_leaf} {p.mean():.9e} {p.std():.9e}")
            seen.append(
                (bool((p == p.clone()).all()), torch.equal(p, p.detach()), p in names, isinstance(p, nn.Parameter))
            )
            seen.append(repr(p.detach()))
            seen.append([p.tolist(), p.detach().numpy().tobytes().hex()] if step == 3 else str(p.data))
        seen.append(str(model))
        seen.append(repr(optimizer))
    return seen


@idiom
def resumed_elsewhere(wrap: Wrap) -> Any:
    """Everything is saved, a second model is made of it, wrapped too, and trained on beside the first."""
    model = mlp(nn.BatchNorm1d(WIDTH))
    optimizer = adam(model)
    wrap(model, optimizer)
    seen = fit(model, optimizer, 3)
    with tempfile.NamedTemporaryFile() as file:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file.name)
        other = mlp(nn.BatchNorm1d(WIDTH))
        saved = torch.load(file.name)
        other.load_state_dict(saved["model"])
        again = adam(other)
        again.load_state_dict(saved["optimizer"])
        wrap(other, again)
        seen += fit(other, again, 3)
        seen += fit(model, optimizer, 3)
    return seen, weights(model), weights(other)
