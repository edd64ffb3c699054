"""More of what training programs do: modules, optimizers, and things that loops do between steps and while evaluating.

Each is drawn by `training_programs`. What only a few programs do is here, so that the plain ones stay easy to read.
"""

import contextlib
import copy
import io
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional
from torch.nn.utils import prune
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

WIDTH = 16
ROWS = 3


def _weight(*shape: int, dtype: torch.dtype = torch.float32) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape, dtype=dtype) / 8)


class Complex(nn.Module):
    """Turns by complex numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.turn = _weight(WIDTH // 2, WIDTH // 2, dtype=torch.complex64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply pairs, as one complex number each, by the conjugate that is computed, not only marked."""
        pairs = torch.view_as_complex(x.float().view(ROWS, WIDTH // 2, 2).contiguous())
        return torch.view_as_real(pairs @ torch.conj_physical(self.turn)).reshape(ROWS, WIDTH).to(x.dtype)


class Pictures(nn.Module):
    """Convolves pictures whose channels lie last in memory."""

    def __init__(self) -> None:
        super().__init__()
        layers = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 1))
        self.layers = layers.to(memory_format=torch.channels_last)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Convolve each row as a picture of 4 by 2."""
        pictures = x.view(ROWS, 2, 4, 2).contiguous(memory_format=torch.channels_last)
        result: torch.Tensor = self.layers(pictures)
        return result.reshape(ROWS, WIDTH)


class Odd(nn.Module):
    """Parameters of odd shapes and types: one number, none, whole numbers, other precisions."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.none = nn.Parameter(torch.tensor(1.5)), nn.Parameter(torch.empty(0, WIDTH))
        self.order = nn.Parameter(torch.randperm(WIDTH), requires_grad=False)
        self.fine, self.rough = _weight(WIDTH, dtype=torch.float64), _weight(WIDTH, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scale, add and reorder."""
        y = x * self.scale.to(x.dtype) + self.none.sum().to(x.dtype) + self.fine.to(x.dtype)
        return y[:, self.order] + self.rough.to(x.dtype)


class Averaging(nn.Module):
    """Keeps averages of its input and its weight in buffers, and computes with them."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = _weight(WIDTH)
        self.register_buffer("mean", torch.zeros(WIDTH))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Update the averages, and use them."""
        mean: Any = self.mean
        with torch.no_grad():
            mean.lerp_((x.float().mean(0) + self.weight.detach().float()).to(mean.dtype), 0.1)
            self.seen += 1
        return x * self.weight.to(x.dtype) + mean.to(x.dtype)


class Listed(nn.Module):
    """Parameters in a list and in a dictionary, chosen by what the weights are."""

    def __init__(self) -> None:
        super().__init__()
        self.many = nn.ParameterList([_weight(WIDTH) for _ in range(3)])
        self.named = nn.ParameterDict({"a": _weight(WIDTH, WIDTH), "b": _weight(WIDTH)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Branch by a weight's value."""
        if self.many[0].sum().item() > 0:
            x = x + torch.where(self.many[1] > 0, self.many[1], self.many[0] * 2).to(x.dtype)
        for weight in self.many:
            x = torch.addcmul(x, x, weight.to(x.dtype), value=0.1)
        return functional.linear(x, self.named["a"].to(x.dtype), self.named["b"].to(x.dtype))


class Called(nn.Module):
    """Calls its part with other weights, made of its own, and by its inner parts."""

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Call three ways."""
        others = {name: value * 0.5 for name, value in self.part.named_parameters()}
        y: torch.Tensor = torch.func.functional_call(self.part, others, (x,))
        part: Any = self.part
        return y + part[0].forward(x) + part[2](torch.tanh(part[0](x)))


class Hooked(nn.Module):
    """Has saved-tensor hooks of its own around a part of its forward."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.layer, self.other = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Save by numpy, by file or as it is."""
        pairs: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
            "cloned": (lambda saved: saved.clone(), lambda saved: saved),
            "filed": (_to_file, _from_file),
            "same": (lambda saved: saved, lambda saved: saved),
        }
        with saved_tensors_hooks(*pairs[self.kind]):
            y = torch.tanh(self.layer(x))
        result: torch.Tensor = self.other(y) * y
        return result


def _to_file(saved: torch.Tensor) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(saved.detach(), file)
    return file


def _from_file(file: io.BytesIO) -> Any:
    file.seek(0)
    return torch.load(file)


class Recomputed(nn.Module):
    """Recomputes nested blocks, in sequence, some of which draw random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(
            *(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Dropout(0.2), nn.Tanh()) for _ in range(3))
        )
        self.last = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Recompute in two pieces, inside a recomputed whole."""

        def whole(x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.last(checkpoint_sequential(self.blocks, 2, x, use_reentrant=False))
            return result

        result: torch.Tensor = checkpoint(whole, x, use_reentrant=False)
        return result


class Reading(nn.Module):
    """Reads words in both directions, with a projection, and keeps its state from call to call."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.LSTM(WIDTH, 4, bidirectional=True, batch_first=True, proj_size=2)
        self.state: Any = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Read the rows as one sentence."""
        state = None if self.state is None or self.state[0].dtype != x.dtype else self.state
        y, (hidden, cell) = self.words(x[None], state)
        # What is kept must not be of inference mode, or autograd would refuse it later.
        if not torch.is_inference_mode_enabled():
            self.state = (hidden.detach(), cell.detach())
        return torch.cat([y[0].to(x.dtype)] * 4, 1)


class Packed(nn.Module):
    """Reads sentences of several lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.GRU(WIDTH // 2, WIDTH, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Read each row as a sentence of two words, or one."""
        sentences = nn.utils.rnn.pack_padded_sequence(x.view(ROWS, 2, WIDTH // 2), torch.tensor([2, 2, 1]), True)
        result: torch.Tensor = self.words(sentences)[1][0]
        return result.to(x.dtype)


class Tied(nn.Module):
    """Looks words up in a table, and scores them with the same."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(WIDTH, WIDTH, padding_idx=0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add the looked-up rows of the best scores."""
        scores = functional.linear(x, self.table.weight.to(x.dtype))
        return scores + self.table(scores.argmax(1)).to(x.dtype)


class Skipping(nn.Module):
    """Leaves a part out, now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Draw whether to use the part."""
        result: torch.Tensor = self.part(x) if torch.rand(()).item() < 0.6 else x
        return result


class Frozen(nn.Module):
    """Computes a part without gradients, and a part of that with them again."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Switch gradients off and on."""
        with torch.no_grad():
            y = self.one(x)
            with torch.set_grad_enabled(torch.is_inference_mode_enabled() is False):
                z = self.two(x)
        return y + z


class Sums(nn.Module):
    """Products that torch writes in many ways: batched, outer, with an output that is there."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = _weight(2, WIDTH, WIDTH), _weight(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply by all of them."""
        a, b = self.a.to(x.dtype), self.b.to(x.dtype)
        y = torch.bmm(x.expand(2, -1, -1), a).sum(0) + torch.baddbmm(b.expand(2, 1, WIDTH), x.expand(2, -1, -1), a)[0]
        y = y + torch.tensordot(x, a[1], 1) + torch.outer(x[:, 0], b)
        y.add_(b).mul_(0.5)
        return y + a.mean((0, 1)).softmax(0) + b.cumsum(0) * 0.1


MORE_INNER: dict[str, Callable[[], nn.Module]] = {
    "complex": Complex,
    "channels_last": Pictures,
    "odd": Odd,
    "buffers": Averaging,
    "listed": Listed,
    "called": Called,
    "hooks_clone": lambda: Hooked("cloned"),
    "hooks_file": lambda: Hooked("filed"),
    "hooks_same": lambda: Hooked("same"),
    "recomputed": Recomputed,
    "reading": Reading,
    "packed": Packed,
    "tied_table": Tied,
    "skipping": Skipping,
    "half_frozen": Frozen,
    "sums": Sums,
    "old_weight_norm": lambda: nn.utils.weight_norm(nn.Linear(WIDTH, WIDTH)),
    "pruned": lambda: prune.random_unstructured(nn.Linear(WIDTH, WIDTH), "weight", 0.3),
    "group_norm": lambda: nn.GroupNorm(4, WIDTH),
    "lazily_sliced": lambda: nn.Bilinear(WIDTH, WIDTH, WIDTH),
}
# Refused, so drawn rarely.
REFUSED_INNER: dict[str, Callable[[], nn.Module]] = {
    "sparse": lambda: nn.Embedding(8, WIDTH, sparse=True),
    "renormed": lambda: nn.Embedding(8, WIDTH, max_norm=0.5),
}


def run_inner(kind: str, inner: Any, y: torch.Tensor) -> torch.Tensor:
    """Return what a module of a kind makes of its input."""
    if kind == "lazily_sliced":
        result: torch.Tensor = inner(y, y)
        return result
    if kind in REFUSED_INNER:
        return y + inner(torch.arange(ROWS)).to(y.dtype)
    found: torch.Tensor = inner(y)
    return found


MORE_OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "amsgrad": ("Adam", {"lr": 0.02, "amsgrad": True, "weight_decay": 0.1}),
    "maximize": ("AdamW", {"lr": 0.001, "maximize": True}),
    "nesterov": ("SGD", {"lr": 0.02, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    "fused_sgd": ("SGD", {"lr": 0.02, "momentum": 0.9, "fused": True}),
    "foreach_sgd": ("SGD", {"lr": 0.02, "momentum": 0.9, "foreach": True}),
    "fused_adagrad": ("Adagrad", {"lr": 0.02, "fused": True}),
    "Adagrad": ("Adagrad", {"lr": 0.02, "lr_decay": 0.1}),
    "Adadelta": ("Adadelta", {"lr": 0.5}),
    "Adamax": ("Adamax", {"lr": 0.02}),
    "ASGD": ("ASGD", {"lr": 0.02}),
    "RAdam": ("RAdam", {"lr": 0.02, "decoupled_weight_decay": True}),
    "Rprop": ("Rprop", {"lr": 0.02}),
    "centered": ("RMSprop", {"lr": 0.02, "momentum": 0.5, "centered": True}),
    "differentiable": ("SGD", {"lr": 0.02, "differentiable": True}),
    "wolfe": ("LBFGS", {"lr": 0.5, "max_iter": 3, "line_search_fn": "strong_wolfe"}),
}


SCHEDULERS: dict[str, Callable[[torch.optim.Optimizer], Any]] = {
    "step": lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9),
    "lambda": lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (step + 1)),
    "cosine": lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5),
    "plateau": lambda optimizer: torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0),
    "chained": lambda optimizer: torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=2),
            torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5),
        ],
        [2],
    ),
}


def step_scheduler(scheduler: Any, loss: Any) -> None:
    """Step a scheduler, with the loss if it asks for it."""
    if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
        scheduler.step(float(loss))
    else:
        scheduler.step()


CLIPS: dict[str, Callable[[list[Any]], Any]] = {
    "norm": lambda parameters: nn.utils.clip_grad_norm_(parameters, 0.1),
    "one_by_one": lambda parameters: nn.utils.clip_grad_norm_(parameters, 0.1, foreach=False),
    "largest": lambda parameters: nn.utils.clip_grad_norm_(parameters, 0.05, norm_type=float("inf")),
    "value": lambda parameters: nn.utils.clip_grad_value_(parameters, 0.01),
    "each": lambda parameters: [nn.utils.clip_grad_norm_([parameter], 0.05) for parameter in parameters],
    "total": lambda parameters: nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None]),
}


def _assign_state(run: Any, _: int) -> None:
    """Load a state whose tensors become the model's own."""
    run.model.load_state_dict({key: value.clone() for key, value in run.model.state_dict().items()}, assign=True)


def _to_vector_and_back(run: Any, _: int) -> None:
    parameters = list(run.model.parameters())
    if len({parameter.dtype for parameter in parameters}) == 1:
        vector = nn.utils.parameters_to_vector(parameters).detach()
        nn.utils.vector_to_parameters(vector * 0.9, parameters)


def _move_nowhere(run: Any, _: int) -> None:
    run.model.to("cpu")
    run.model.requires_grad_(True)
    run.model.apply(lambda module: module.weight.mul_(0.9) if isinstance(module, nn.LayerNorm) else None)


def _freeze_all_but(run: Any, number: int) -> None:
    """Train one layer alone, or all again."""
    frozen = not run.model.first.weight.requires_grad
    run.model.requires_grad_(frozen)
    run.model.layers[number % len(run.model.layers)].requires_grad_(True)


def _gradients_in_one_buffer(run: Any, _: int) -> None:
    """Let gradients be views of one buffer, to be accumulated into."""
    trained = [p for p in run.model.parameters() if p.requires_grad and p.dtype == run.weight(0).dtype]
    buffer = torch.zeros(sum(parameter.numel() for parameter in trained), dtype=run.weight(0).dtype)
    start = 0
    for parameter in trained:
        parameter.grad = buffer[start : start + parameter.numel()].view_as(parameter)
        start += parameter.numel()
    run.kept.append(buffer)


def _exchange_head(run: Any, number: int) -> None:
    """Give the model another head, which nobody trains, and its own again."""
    other = nn.Linear(WIDTH, 1).to(run.model.head.weight.dtype)
    nn.init.constant_(other.weight, 0.1 * number)
    nn.init.zeros_(other.bias)
    own, run.model.head = run.model.head, other
    run.seen.append(run.model(torch.arange(ROWS)).detach().clone())
    run.model.head = own


def _load_partly(run: Any, number: int) -> None:
    name = f"layers.{number % len(run.model.layers)}.weight"
    run.model.load_state_dict({name: run.weight(number).detach().clone() * 0.5}, strict=False)


def _copy_of_a_copy(run: Any, _: int) -> None:
    """Save what is on record for later, and go back to it at once."""
    state = copy.deepcopy(run.model.state_dict())
    optimizer = copy.deepcopy(run.optimizer.state_dict())
    for parameter in run.model.parameters():
        if parameter.is_floating_point():
            parameter.add_(1)
    run.model.load_state_dict(state)
    run.optimizer.load_state_dict(optimizer)


def _late_group(run: Any, number: int) -> None:
    """Give parameters of the model that nobody trained yet to the optimizer."""
    known = {id(parameter) for group in run.optimizer.param_groups for parameter in group["params"]}
    new = [parameter for parameter in run.model.parameters() if id(parameter) not in known]
    if new:
        for parameter in new:
            parameter.requires_grad_(parameter.is_floating_point() or parameter.is_complex())
        run.optimizer.add_param_group({"params": new, "lr": 0.01 * (number + 1)})


MORE_BETWEEN: dict[str, Callable[[Any, int], Any]] = {
    "assign_state": _assign_state,
    "vector": _to_vector_and_back,
    "move_nowhere": _move_nowhere,
    "freeze_all_but": _freeze_all_but,
    "gradient_buffer": _gradients_in_one_buffer,
    "exchange_head": _exchange_head,
    "load_partly": _load_partly,
    "back_and_forth": _copy_of_a_copy,
    "late_group": _late_group,
    "gradient_none": lambda run, number: setattr(run.weight(number), "grad", None),
    "gradient_anew": lambda run, number: (
        None
        if run.weight(number).grad is None
        else setattr(run.weight(number), "grad", run.weight(number).grad.clone() * 2)
    ),
    "keep_vars": lambda run, _: run.seen.append(run.model.state_dict(keep_vars=True)["head.weight"].detach().clone()),
    "average_foreach": lambda run, _: torch._foreach_mul_([p for p in run.model.parameters() if p.dim() > 1], 0.99),
    "train_mode": lambda run, number: run.model.layers[number % len(run.model.layers)].train(number % 2 == 0),
}


class _StopError(Exception):
    """Raised in the middle of a backward."""


def _stop(_: Any) -> None:
    raise _StopError


def _fail_in_backward(run: Any) -> None:
    """Let a backward fail on its way, and go on with the gradients that it has left."""
    layer = run.model.layers[len(run.model.layers) // 2]
    with torch.enable_grad():
        hook = layer.register_forward_hook(lambda _m, _a, out: out.register_hook(_stop) and None)
        loss = run.model(run._tokens())
        hook.remove()
        with contextlib.suppress(_StopError):
            loss.backward()


def _own_loop(run: Any) -> None:
    """Evaluate in eval mode, and go back to training."""
    was = {module: module.training for module in run.model.modules()}
    run.model.eval()
    run.seen.append(run.model(run._tokens()).clone())
    for module, training in was.items():
        module.training = training


def _drop_graph(run: Any) -> None:
    """Compute a loss with gradients, and throw it away."""
    with torch.enable_grad():
        run.seen.append(run.model(run._tokens()).detach().clone())


def _input_gradient(run: Any) -> None:
    """Ask for the gradient of a layer's input alone."""
    with torch.enable_grad():
        x = torch.ones(ROWS, WIDTH, dtype=run.weight(0).dtype, requires_grad=True)
        layer = run.model.layers[0]
        if layer.layer.recompute != "reentrant":
            (found,) = torch.autograd.grad(layer(x, None).float().sum(), x)
            run.seen.append(found.clone())


def _cached_parametrizations(run: Any) -> None:
    with nn.utils.parametrize.cached():
        run.seen.append((run.model(run._tokens()) + run.model(run._tokens())).clone())


def _forward_derivative(run: Any) -> None:
    """Take the derivative in a direction of the input, in forward mode, by a layer."""
    layer = run.model.head
    x = torch.ones(ROWS, WIDTH, dtype=layer.weight.dtype)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, x * 2)
        found = torch.autograd.forward_ad.unpack_dual(layer(dual))
        run.seen.append((found.primal + found.tangent).detach().clone())


def _saved_and_loaded(run: Any) -> None:
    file = io.BytesIO()
    torch.save(run.model.state_dict(), file)
    file.seek(0)
    run.seen += [value.clone() for value in torch.load(file).values()]


MORE_EVALUATIONS: dict[str, Callable[[Any], None]] = {
    "backward_fails": _fail_in_backward,
    "eval_mode": _own_loop,
    "dropped": _drop_graph,
    "input_gradient": _input_gradient,
    "cached_parametrizations": _cached_parametrizations,
    "forward_derivative": _forward_derivative,
    "saved": _saved_and_loaded,
}


@contextlib.contextmanager
def numbered_averages(run: Any, kind: str) -> Iterator[Callable[[], None]]:
    """Give what updates an average of the weights after each step; what it comes to is among what is compared."""
    if kind == "swa":
        yield lambda: run.average.update_parameters(run.model)
        run.seen += [parameter.detach().clone() for parameter in run.average.parameters()]
        return
    means = [parameter.detach().clone() for parameter in run.model.parameters()]

    def update() -> None:
        if kind == "no":
            return
        with torch.no_grad():
            for mean, parameter in zip(means, run.model.parameters(), strict=True):
                if mean.is_floating_point() or mean.is_complex():
                    mean.lerp_(parameter.detach(), 0.3)

    yield update
    run.seen += means
