"""Modules that are not used every day."""

from collections.abc import Callable
from typing import Any

import torch
from common import IDIOMS, WIDTH, Idiom, Wrap, adam, batch, fit, mlp, weights
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


def _training(make: Callable[[], nn.Module], loss: Callable[[Any, int], Any], **options: Any) -> Idiom:
    def run(wrap: Wrap) -> Any:
        model = make()
        optimizer = adam(model, **options)
        wrap(model, optimizer)
        seen = fit(model, optimizer, 3, loss)
        model.eval()
        with torch.no_grad():
            seen.append(loss(model, 9))
        model.train()
        return seen, fit(model, optimizer, 2, loss), weights(model)

    return run


def _encoder(**options: Any) -> nn.Module:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, 2, 32, batch_first=True, **options), 2)


class OwnGelu(torch.autograd.Function):
    """A function with a weight inside, given as a view."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Scale."""
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> Any:
        """Scale back."""
        x, weight = ctx.saved_tensors
        return slopes[0] * weight, (slopes[0] * x).sum(0)


class WithOwnFunction(nn.Module):
    """Gives a function of its own a parameter, or a view."""

    def __init__(self, *, direct: bool) -> None:
        super().__init__()
        self.direct = direct
        self.part = mlp()
        self.scale = nn.Parameter(torch.rand(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Use it."""
        scale = self.scale if self.direct else self.scale.view_as(self.scale)
        result: torch.Tensor = OwnGelu.apply(self.part(x), scale)
        return result


class Adaptive(nn.Module):
    """An adaptive softmax over an embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(40, WIDTH)
        self.out = nn.AdaptiveLogSoftmaxWithLoss(WIDTH, 40, [8, 20])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the loss."""
        tokens = (x[:, :4].abs() * 13).long() % 40
        result: torch.Tensor = self.out(self.table(tokens.flatten()), tokens.flatten().flip(0)).loss
        return result


class FromFourier(nn.Module):
    """Filters by a complex weight in the frequencies."""

    def __init__(self) -> None:
        super().__init__()
        self.filter = nn.Parameter(torch.randn(WIDTH // 2 + 1, dtype=torch.cfloat))
        self.part = mlp()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Filter."""
        result: torch.Tensor = torch.fft.irfft(torch.fft.rfft(self.part(x)) * self.filter, n=WIDTH)
        return result


class Selective(nn.Module):
    """Recomputes, but for its products."""

    def __init__(self) -> None:
        super().__init__()
        self.part = mlp()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Recompute by a policy."""
        from torch.utils.checkpoint import create_selective_checkpoint_contexts

        keep = [torch.ops.aten.addmm.default, torch.ops.aten.mm.default]
        result: torch.Tensor = checkpoint(
            self.part, x, use_reentrant=False, context_fn=lambda: create_selective_checkpoint_contexts(keep)
        )
        return result


def _square(model: Any, step: int) -> torch.Tensor:
    result: torch.Tensor = model(batch(step)).square().mean()
    return result


def _sequences(model: Any, step: int) -> torch.Tensor:
    mask = torch.zeros(2, 5, dtype=torch.bool)
    mask[1, 3:] = True
    result: torch.Tensor = model(batch(step, 2, 5, WIDTH), src_key_padding_mask=mask).square().mean()
    return result


def _pictures(model: Any, step: int) -> torch.Tensor:
    result: torch.Tensor = model(batch(step, 2, 3, 8, 8)).square().mean()
    return result


def _convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.GroupNorm(2, 8),
        nn.SiLU(),
        nn.Conv2d(8, 8, 3, groups=8, padding=1),
        nn.InstanceNorm2d(8, affine=True),
        nn.ConvTranspose2d(8, 4, 2, stride=2),
        nn.BatchNorm2d(4, momentum=None),
        nn.Hardswish(inplace=True),
        nn.Upsample(scale_factor=2),
        nn.Conv2d(4, 3, 1),
    )


def _lazy() -> nn.Module:
    model = nn.Sequential(nn.LazyLinear(WIDTH), nn.Mish(), nn.LazyBatchNorm1d(), nn.LazyLinear(WIDTH))
    model(batch(0))
    return model


def _on_meta_first() -> nn.Module:
    with torch.device("meta"):
        model = mlp()
    model = model.to_empty(device="cpu")
    for p in model.parameters():
        nn.init.normal_(p, std=0.1)
    return model


def _quantised() -> nn.Module:
    from torch.ao.quantization import FakeQuantize, MovingAverageMinMaxObserver

    fake = FakeQuantize(MovingAverageMinMaxObserver, quant_min=0, quant_max=255)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), fake, nn.ReLU(), nn.Linear(WIDTH, WIDTH))


MODULES: dict[str, tuple[Callable[[], nn.Module], Callable[[Any, int], Any]]] = {
    "encoder_with_padding": (_encoder, _sequences),
    "encoder_norm_first": (lambda: _encoder(norm_first=True, activation="gelu"), _sequences),
    "whole_transformer": (
        lambda: nn.Transformer(WIDTH, 2, 1, 1, 32, batch_first=True),
        lambda m, s: m(batch(s, 2, 5, WIDTH), batch(s + 1, 2, 4, WIDTH)).square().mean(),
    ),
    "attention_with_weights": (
        lambda: nn.MultiheadAttention(WIDTH, 2, add_bias_kv=True, kdim=8, vdim=8, batch_first=True),
        lambda m, s: sum(y.square().mean() for y in m(batch(s, 2, 5, WIDTH), batch(s, 2, 4, 8), batch(s, 2, 4, 8))),
    ),
    "own_function_of_a_view": (lambda: WithOwnFunction(direct=False), _square),
    "own_function_of_the_parameter": (lambda: WithOwnFunction(direct=True), _square),
    "adaptive_softmax": (Adaptive, lambda m, s: m(batch(s))),
    "complex_filter": (FromFourier, _square),
    "selective_checkpointing": (Selective, _square),
    "convolutions": (_convolutions, _pictures),
    "channels_last": (lambda: _convolutions().to(memory_format=torch.channels_last), _pictures),
    "lazy_modules": (_lazy, _square),
    "made_on_meta": (_on_meta_first, _square),
    "fake_quantised": (_quantised, _square),
    "old_spectral_norm": (lambda: mlp(nn.utils.spectral_norm(nn.Linear(WIDTH, WIDTH))), _square),
    "new_weight_norm": (lambda: mlp(nn.utils.parametrizations.weight_norm(nn.Linear(WIDTH, WIDTH))), _square),
    "orthogonal": (lambda: mlp(nn.utils.parametrizations.orthogonal(nn.Linear(WIDTH, WIDTH))), _square),
    "bilstm_packed": (
        lambda: nn.LSTM(WIDTH, WIDTH, bidirectional=True, proj_size=8),
        lambda m, s: (
            m(nn.utils.rnn.pack_sequence([batch(s, 4, WIDTH), batch(s + 1, 2, WIDTH)]))[0].data.square().mean()
        ),
    ),
    "ctc": (
        lambda: nn.Linear(WIDTH, 9),
        lambda m, s: functional.ctc_loss(
            m(batch(s, 12, 2, WIDTH)).log_softmax(-1), torch.tensor([[1, 2, 3], [2, 2, 5]]), (12, 11), (3, 2)
        ),
    ),
    "sparse_embedding": (
        lambda: nn.EmbeddingBag(40, WIDTH, sparse=True),
        lambda m, s: m(torch.arange(12).view(4, 3) + s).square().mean(),
    ),
    "nested_tensors": (
        mlp,
        lambda m, s: (
            m(torch.nested.nested_tensor([batch(s, 3, WIDTH), batch(s + 1, 2, WIDTH)], layout=torch.jagged))
            .values()
            .square()
            .mean()
        ),
    ),
}
for _name, (_make, _loss) in MODULES.items():
    IDIOMS[_name] = _training(_make, _loss)
