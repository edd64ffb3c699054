"""Optimizers of one's own, and loops that do more than step."""

import copy
from typing import Any

import torch
from common import WIDTH, Wrap, adam, batch, fit, idiom, mlp, weights
from torch import nn
from torch.nn import functional


class Sam(torch.optim.Optimizer):
    """Sharpness-aware: climb, take the gradient there, come back, step."""

    def __init__(self, parameters: Any, base: Any, rho: float = 0.05, **options: Any) -> None:
        super().__init__(parameters, {"rho": rho, **options})
        self.base = base(self.param_groups, **options)
        self.param_groups = self.base.param_groups

    @torch.no_grad()
    def climb(self) -> None:
        """Go to where the loss is larger."""
        norm = torch.stack([p.grad.norm() for g in self.param_groups for p in g["params"]]).norm()
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["old"] = p.data.clone()
                p.add_(p.grad * group["rho"] / norm)
        self.zero_grad()

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Come back, and step."""
        for group in self.param_groups:
            for p in group["params"]:
                p.data = self.state[p]["old"]
        self.base.step(closure)
        self.zero_grad()


@idiom
def sharpness_aware(wrap: Wrap) -> Any:
    """SAM as its best-known implementation has it."""
    model = mlp()
    optimizer = Sam(model.parameters(), torch.optim.SGD, lr=0.05, momentum=0.9)
    wrap(model, optimizer)
    seen = []
    for step in range(3):
        model(batch(step)).square().mean().backward()
        optimizer.climb()
        loss = model(batch(step)).square().mean()
        loss.backward()
        optimizer.step()
        seen.append(loss.detach().clone())
    return seen, weights(model)


class Lookahead(torch.optim.Optimizer):
    """Slow weights around another optimizer."""

    def __init__(self, base: Any) -> None:
        self.base, self.count = base, 0
        self.param_groups, self.defaults, self.state = base.param_groups, base.defaults, base.state
        self.slow = [[p.detach().clone() for p in g["params"]] for g in self.param_groups]

    def step(self, closure: Any = None) -> Any:
        """Step, and every second time move the slow weights."""
        loss = self.base.step(closure)
        self.count += 1
        if self.count % 2 == 0:
            for group, slow in zip(self.param_groups, self.slow, strict=True):
                for p, s in zip(group["params"], slow, strict=True):
                    s.add_(p.data - s, alpha=0.5)
                    p.data.copy_(s)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Zero those of the inner one."""
        self.base.zero_grad(set_to_none)


@idiom
def lookahead(wrap: Wrap) -> Any:
    """An optimizer around another one."""
    model = mlp()
    optimizer = Lookahead(adam(model))
    wrap(model, optimizer)
    return fit(model, optimizer), weights(model)


@idiom
def muon(wrap: Wrap) -> Any:
    """Orthogonalised momentum for matrices, AdamW for the rest."""
    model = mlp()
    matrices = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    optimizer, second = torch.optim.Muon(matrices, lr=0.02), torch.optim.AdamW(others, lr=0.01)
    wrap(model, optimizer)
    for step in range(3):
        model(batch(step)).square().mean().backward()
        optimizer.step()
        second.step()
        model.zero_grad()
    return weights(model), optimizer.state_dict()["state"]


@idiom
def lbfgs(wrap: Wrap) -> Any:
    """Several evaluations a step."""
    model = mlp()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4, line_search_fn="strong_wolfe")
    wrap(model, optimizer)
    seen = []

    def closure() -> Any:
        optimizer.zero_grad()
        loss = model(batch(0)).square().mean()
        loss.backward()
        seen.append(loss.detach().clone())
        return loss

    for _ in range(3):
        optimizer.step(closure)
    return seen, weights(model)


@idiom
def step_hooks(wrap: Wrap) -> Any:
    """Hooks before and after the optimizer's step."""
    model = mlp()
    optimizer = adam(model)
    norms: list[Any] = []
    optimizer.register_step_pre_hook(lambda o, *_: norms.append(o.param_groups[0]["params"][0].grad.norm()))
    optimizer.register_step_post_hook(lambda o, *_: norms.append(o.param_groups[0]["params"][0].norm().detach()))
    wrap(model, optimizer)
    optimizer.register_step_post_hook(lambda o, *_: o.param_groups[0]["params"][0].data.mul_(0.9))
    return fit(model, optimizer), norms, weights(model)


@idiom
def optimizer_in_backward(wrap: Wrap) -> Any:
    """One optimizer a parameter, which steps when its gradient has landed."""
    model = mlp()
    own = {p: torch.optim.SGD([p], lr=0.05, momentum=0.9) for p in model.parameters()}
    wrap(model, None)

    def step(p: Any) -> None:
        own[p].step()
        own[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(step)
    seen = []
    for number in range(3):
        loss = model(batch(number)).square().mean()
        loss.backward()
        seen.append(loss.detach().clone())
    return seen, weights(model)


@idiom
def two_players(wrap: Wrap) -> Any:
    """A GAN: two models, two optimizers, each frozen while the other learns."""
    maker, judge = mlp(), mlp(nn.Linear(WIDTH, 1))
    one, two = adam(maker, betas=(0.0, 0.9)), adam(judge)
    wrap(maker, one)
    wrap(judge, two)
    seen = []
    for step in range(4):
        judge.requires_grad_(True)
        loss = (
            functional.softplus(-judge(batch(step))).mean()
            + functional.softplus(judge(maker(batch(step + 50)).detach())).mean()
        )
        loss.backward()
        two.step()
        two.zero_grad()
        judge.requires_grad_(False)
        other = functional.softplus(-judge(maker(batch(step + 90)))).mean()
        other.backward()
        one.step()
        one.zero_grad()
        seen += [loss.detach(), other.detach()]
    return seen, weights(maker), weights(judge)


@idiom
def distillation(wrap: Wrap) -> Any:
    """A frozen teacher, wrapped without an optimizer."""
    teacher, student = mlp().requires_grad_(False).eval(), mlp(width=8)
    optimizer = adam(student)
    wrap(teacher, None)
    wrap(student, optimizer)

    def loss(model: Any, step: int) -> Any:
        with torch.no_grad():
            aim = teacher(batch(step)).softmax(-1)
        return functional.kl_div(model(batch(step)).log_softmax(-1), aim, reduction="batchmean")

    return fit(student, optimizer, loss=loss), weights(student)


@idiom
def momentum_teacher(wrap: Wrap) -> Any:
    """BYOL: a teacher that follows the student by lerp, wrapped too."""
    student = mlp()
    teacher = copy.deepcopy(student).requires_grad_(False)
    optimizer = adam(student)
    wrap(teacher, None)
    wrap(student, optimizer)

    def loss(model: Any, step: int) -> Any:
        with torch.no_grad():
            aim = teacher(batch(step + 7))
            for mean, p in zip(teacher.parameters(), model.parameters(), strict=True):
                mean.lerp_(p, 0.1)
        return functional.mse_loss(model(batch(step)), aim)

    return fit(student, optimizer, loss=loss), weights(teacher)


@idiom
def progressive_unfreezing(wrap: Wrap) -> Any:
    """Thaw a layer after another, with a group of its own."""
    model = mlp()
    model.requires_grad_(False)
    model[3].requires_grad_(True)
    optimizer = torch.optim.AdamW(model[3].parameters(), lr=1e-2)
    wrap(model, optimizer)
    seen = fit(model, optimizer, 2)
    model[0].requires_grad_(True)
    optimizer.add_param_group({"params": model[0].parameters(), "lr": 1e-3})
    return seen, fit(model, optimizer, 3), weights(model)


@idiom
def truncated_backward_through_time(wrap: Wrap) -> Any:
    """A recurrent state that is detached between pieces."""
    model = nn.LSTM(WIDTH, WIDTH, 2, batch_first=True, dropout=0.1)
    optimizer = adam(model)
    wrap(model, optimizer)
    state: Any = None
    seen = []
    for step in range(4):
        y, state = model(batch(step, 2, 5, WIDTH), state)
        state = tuple(s.detach() for s in state)
        y.square().mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        optimizer.zero_grad()
        seen.append(y.detach().clone())
    return seen, weights(model)


@idiom
def scaler_with_accumulation(wrap: Wrap) -> Any:
    """fp16 autocast, a scaler that overflows at first, and two batches a step."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40, growth_interval=2)
    seen = []
    for step in range(8):
        with torch.autocast("cpu", torch.float16):
            loss = model(batch(step)).float().square().mean() / 2
        scaler.scale(loss).backward()
        seen.append(loss.detach().clone())
        if step % 2:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    return seen, weights(model), scaler.get_scale()


@idiom
def warm_restarts(wrap: Wrap) -> Any:
    """A scheduler that steps each batch, and one on momentum."""
    model = mlp()
    optimizer = adam(model)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=8)
    wrap(model, optimizer)
    seen: list[Any] = []
    for _ in range(6):
        seen += fit(model, optimizer, 1)
        schedule.step()
    return seen, weights(model), schedule.get_last_lr()


@idiom
def learning_from_a_buffer(wrap: Wrap) -> Any:
    """DQN: a target network loaded from time to time, actions chosen without gradients."""
    online = mlp()
    target = copy.deepcopy(online)
    optimizer = torch.optim.RMSprop(online.parameters(), lr=1e-3)
    wrap(online, optimizer)
    seen = []
    for step in range(6):
        with torch.no_grad():
            action = online(batch(step)).argmax(1)
            aim = target(batch(step + 1)).max(1).values
        value = online(batch(step)).gather(1, action[:, None])[:, 0]
        loss = functional.smooth_l1_loss(value, aim)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(online.parameters(), 1.0)
        optimizer.step()
        if step % 2:
            target.load_state_dict(online.state_dict())
        seen += [loss.detach().clone(), action]
    return seen, weights(target)


@idiom
def policy_gradients(wrap: Wrap) -> Any:
    """PPO: several epochs over what an older policy did."""
    model = mlp()
    optimizer = adam(model)
    wrap(model, optimizer)
    seen = []
    for step in range(2):
        with torch.inference_mode():
            old = model(batch(step)).log_softmax(-1)
            action = torch.multinomial(old.exp(), 1)
        old, action = old.clone(), action.clone()
        for _ in range(3):
            new = model(batch(step)).log_softmax(-1).gather(1, action)
            ratio = (new - old.gather(1, action)).exp()
            loss = -torch.min(ratio, ratio.clamp(0.8, 1.2)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen.append(loss.detach().clone())
    return seen, weights(model)
