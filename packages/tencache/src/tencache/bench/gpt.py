"""A small GPT, for the demonstration, the benchmarks and the tests."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


@dataclass(frozen=True)
class GPTConfig:
    """Sizes of a GPT; `recompute` drops a block's activations: "reentrant", "nonreentrant" or nothing."""

    vocabulary: int = 8192
    context: int = 128
    width: int = 512
    heads: int = 8
    layers: int = 12
    tied: bool = False
    recompute: str = ""


class Block(nn.Module):
    """Attention and a two-layer network, each added to what came in."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.norm_1 = nn.LayerNorm(config.width)
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)
        self.norm_2 = nn.LayerNorm(config.width)
        self.up = nn.Linear(config.width, 4 * config.width)
        self.down = nn.Linear(4 * config.width, config.width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        batch, length, width = x.shape
        qkv = self.qkv(self.norm_1(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        result: Tensor = x + self.down(functional.gelu(self.up(self.norm_2(x))))
        return result


class GPT(nn.Module):
    """A decoder-only transformer that returns its next-token loss."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.positions = nn.Embedding(config.context, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        if config.tied:
            self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the mean loss of predicting each token from those before it."""
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = self._run(block, x)
        logits = self.head(self.norm(x))[:, :-1]
        return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    def _run(self, block: nn.Module, x: Tensor) -> Tensor:
        if self.config.recompute and torch.is_grad_enabled():
            result: Tensor = checkpoint(block, x, use_reentrant=self.config.recompute == "reentrant")
        else:
            result = block(x)
        return result


def batches(config: GPTConfig, count: int, size: int = 2, length: int | None = None, seed: int = 0) -> list[Tensor]:
    """Return random batches of tokens, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    shape = (size, length or config.context)
    return [torch.randint(config.vocabulary, shape, generator=generator) for _ in range(count)]
