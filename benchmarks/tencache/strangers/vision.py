"""Networks for pictures as torchvision and timm write them, by hand: neither has to be installed."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from common import IDIOMS, Wrap, batch, weights
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


def drop_path(x: torch.Tensor, probability: float, *, training: bool) -> torch.Tensor:
    """Leave out a branch for some of the pictures."""
    if not training or not probability:
        return x
    keep = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(1 - probability)
    return x * keep.div_(1 - probability)


class BasicBlock(nn.Module):
    """A block of a ResNet: ReLU in place, `out += identity`, a projection where sizes differ."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(outside), nn.BatchNorm2d(outside)
        self.conv2, self.relu = nn.Conv2d(outside, outside, 3, 1, 1, bias=False), nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inside != outside:
            self.downsample = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))
        nn.init.zeros_(self.bn2.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's result."""
        identity = x
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        result: torch.Tensor = self.relu(out)
        return result


def resnet() -> nn.Module:
    """Return a small ResNet."""
    stem = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
    return nn.Sequential(
        OrderedDict(
            stem=stem,
            pool=nn.MaxPool2d(3, 2, 1),
            layer1=nn.Sequential(BasicBlock(8, 8, 1), BasicBlock(8, 8, 1)),
            layer2=nn.Sequential(BasicBlock(8, 16, 2), BasicBlock(16, 16, 1)),
            average=nn.AdaptiveAvgPool2d(1),
            flat=nn.Flatten(1),
            fc=nn.Linear(16, 10),
        )
    )


class ConvNeXtBlock(nn.Module):
    """Depthwise convolution, norm over the last dimension, a scale for each channel, stochastic depth."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.depthwise, self.norm = nn.Conv2d(dim, dim, 7, padding=3, groups=dim), nn.LayerNorm(dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.layer_scale = nn.Parameter(torch.full((dim, 1, 1), 1e-1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's result."""
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.down(functional.gelu(self.up(y))).permute(0, 3, 1, 2)
        return x + drop_path(self.layer_scale * y, 0.2, training=self.training)


class ConvNeXt(nn.Module):
    """Patches, blocks, a norm in place of a pool's."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.blocks = nn.Conv2d(3, 16, 4, 4), nn.Sequential(*(ConvNeXtBlock(16) for _ in range(3)))
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores."""
        result: torch.Tensor = self.head(self.norm(self.blocks(self.stem(x)).mean([-2, -1])))
        return result


class Squeeze(nn.Module):
    """Squeeze and excitation, by convolutions, with a sigmoid that is multiplied in place."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(channels, channels // 4, 1), nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scale the channels."""
        scale = functional.silu(self.fc1(functional.adaptive_avg_pool2d(x, 1)), inplace=True)
        return torch.sigmoid_(self.fc2(scale)) * x


class Inverted(nn.Module):
    """An inverted residual of EfficientNet and MobileNet."""

    def __init__(self, channels: int, act: Callable[..., nn.Module]) -> None:
        super().__init__()
        wide = 4 * channels
        self.block = nn.Sequential(
            nn.Sequential(nn.Conv2d(channels, wide, 1, bias=False), nn.BatchNorm2d(wide, eps=1e-3), act(inplace=True)),
            nn.Sequential(
                nn.Conv2d(wide, wide, 3, 1, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), act(inplace=True)
            ),
            Squeeze(wide),
            nn.Sequential(nn.Conv2d(wide, channels, 1, bias=False), nn.BatchNorm2d(channels)),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's result."""
        result = drop_path(self.block(x), 0.2, training=self.training)
        result += x
        return result


def efficientnet(act: Callable[..., nn.Module]) -> nn.Module:
    """Return a small EfficientNet, or MobileNet with another activation."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1, bias=False),
        nn.BatchNorm2d(8, momentum=0.01),
        act(inplace=True),
        Inverted(8, act),
        Inverted(8, act),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.2, inplace=True),
        nn.Linear(8, 10),
    )


class DenseLayer(nn.Module):
    """A layer of a DenseNet, which concatenates what came before, recomputed to save memory or not."""

    def __init__(self, inside: int, growth: int, *, efficient: bool) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(inside), nn.Conv2d(inside, 2 * growth, 1, bias=False)
        self.norm2, self.conv2 = nn.BatchNorm2d(2 * growth), nn.Conv2d(2 * growth, growth, 3, padding=1, bias=False)
        self.efficient = efficient

    def bottleneck(self, *features: torch.Tensor) -> torch.Tensor:
        """Concatenate and narrow."""
        result: torch.Tensor = self.conv1(functional.relu(self.norm1(torch.cat(features, 1)), inplace=True))
        return result

    def forward(self, features: list[torch.Tensor]) -> torch.Tensor:
        """Return new features."""
        if self.efficient and any(one.requires_grad for one in features):
            y = checkpoint(self.bottleneck, *features, use_reentrant=False)
        else:
            y = self.bottleneck(*features)
        y = self.conv2(functional.relu(self.norm2(y), inplace=True))
        return functional.dropout(y, 0.1, self.training)


class DenseNet(nn.Module):
    """Layers that all see all features before them."""

    def __init__(self, *, efficient: bool) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, 2, 1)
        self.layers = nn.ModuleDict({f"layer{n}": DenseLayer(8 + 4 * n, 4, efficient=efficient) for n in range(4)})
        self.norm, self.head = nn.BatchNorm2d(24), nn.Linear(24, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores."""
        features = [self.first(x)]
        for layer in self.layers.values():
            features.append(layer(features))
        out = functional.relu(self.norm(torch.cat(features, 1)), inplace=True)
        result: torch.Tensor = self.head(torch.flatten(functional.adaptive_avg_pool2d(out, (1, 1)), 1))
        return result


class WindowAttention(nn.Module):
    """Attention of Swin: windows, a roll, a table of relative positions read by a buffer, a scale that is trained."""

    relative: torch.Tensor

    def __init__(self, dim: int, window: int, shift: int) -> None:
        super().__init__()
        self.window, self.shift, self.heads = window, shift, 2
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.table = nn.Parameter(torch.randn((2 * window - 1) ** 2, 2) * 0.1)
        self.logit_scale = nn.Parameter(torch.log(10 * torch.ones(2, 1, 1)))
        at = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        offset = at[:, :, None] - at[:, None] + window - 1
        self.register_buffer("relative", (offset[0] * (2 * window - 1) + offset[1]).flatten(), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attend within windows."""
        size, height, width, dim = x.shape
        w = self.window
        rolled = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        parts = rolled.view(size, height // w, w, width // w, w, dim).transpose(2, 3).reshape(-1, w * w, dim)
        q, k, v = self.qkv(parts).reshape(-1, w * w, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)
        scores = functional.normalize(q, dim=-1) @ functional.normalize(k, dim=-1).transpose(-2, -1)
        scores = scores * torch.clamp(self.logit_scale, max=4.6).exp()
        bias = self.table[self.relative].view(w * w, w * w, -1).permute(2, 0, 1).contiguous().unsqueeze(0)
        y = ((scores + bias).softmax(-1) @ v).transpose(1, 2).reshape(parts.shape)
        y = self.proj(y).view(size, height // w, width // w, w, w, dim).transpose(2, 3).reshape(x.shape)
        return x + torch.roll(y, (self.shift, self.shift), (1, 2))


class Swin(nn.Module):
    """Patches, attention in windows, patches merged."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 4, 4)
        self.blocks = nn.Sequential(WindowAttention(16, 4, 0), nn.LayerNorm(16), WindowAttention(16, 4, 2))
        self.merge, self.head = nn.Linear(64, 16, bias=False), nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores."""
        x = self.blocks(self.patches(x).permute(0, 2, 3, 1))
        x = torch.cat([x[:, i::2, j::2] for i in (0, 1) for j in (0, 1)], -1)
        result: torch.Tensor = self.head(self.merge(x).flatten(1, 2).mean(1))
        return result


class ViT(nn.Module):
    """A class token, positions that are interpolated, an encoder of torch, a head beside a distillation token."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 8, 8)
        self.token, self.distilled = nn.Parameter(torch.zeros(1, 1, 16)), nn.Parameter(torch.zeros(1, 1, 16))
        self.positions = nn.Parameter(torch.randn(1, 11, 16) * 0.02)
        layer = nn.TransformerEncoderLayer(16, 2, 32, 0.1, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head, self.other = nn.Linear(16, 10), nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores, those of both heads averaged."""
        x = self.patches(x).flatten(2).transpose(1, 2)
        grid = self.positions[:, 2:].reshape(1, 3, 3, 16).permute(0, 3, 1, 2)
        grid = functional.interpolate(grid, (4, 4), mode="bicubic").flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(len(x), -1, -1), self.distilled.expand(len(x), -1, -1)], 1)
        x = self.encoder(torch.cat([tokens + self.positions[:, :2], x + grid], 1))
        result: torch.Tensor = (self.head(x[:, 0]) + self.other(x[:, 1])) / 2
        return result


class UNet(nn.Module):
    """Steps down and up, with what came before beside; deep supervision; norm by groups."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([self.double(3, 8), self.double(8, 16)])
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.last, self.out = self.double(16, 8), nn.Conv2d(8, 10, 1)
        self.side = nn.Conv2d(16, 10, 1)

    @staticmethod
    def double(inside: int, outside: int) -> nn.Module:
        """Return two convolutions."""
        return nn.Sequential(
            nn.Conv2d(inside, outside, 3, padding=1, padding_mode="reflect"),
            nn.GroupNorm(4, outside),
            nn.LeakyReLU(0.1, inplace=True),
            nn.utils.parametrizations.weight_norm(nn.Conv2d(outside, outside, 3, padding=1)),
            nn.ELU(inplace=True),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores."""
        one = self.down[0](x)
        two = self.down[1](functional.max_pool2d(one, 2))
        out = self.out(self.last(torch.cat([self.up(two), one], 1)))
        return out.mean((2, 3)) + self.side(two).amax((2, 3))


class Shuffled(nn.Module):
    """Channels that are chunked, shuffled and grouped; frozen statistics; a standardised weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, 2, 1)
        self.branch = nn.Sequential(
            nn.Conv2d(8, 8, 3, padding=1, groups=2, bias=False), nn.BatchNorm2d(8), nn.ReLU6(True)
        )
        self.frozen = nn.BatchNorm2d(16)
        self.standard = nn.Conv2d(16, 16, 3)
        self.head = nn.Linear(16, 10)
        self.frozen.requires_grad_(False)

    def train(self, mode: bool = True) -> Any:
        """Leave the frozen statistics alone."""
        super().train(mode)
        self.frozen.eval()
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores."""
        one, two = self.first(x).chunk(2, dim=1)
        x = torch.cat((one, self.branch(two)), 1)
        size, channels, height, width = x.shape
        x = x.view(size, 2, channels // 2, height, width).transpose(1, 2).contiguous().view(size, -1, height, width)
        weight = self.standard.weight
        weight = (weight - weight.mean((1, 2, 3), keepdim=True)) / (weight.std((1, 2, 3), keepdim=True) + 1e-5)
        x = functional.conv2d(self.frozen(x), weight, self.standard.bias, padding=1)
        result: torch.Tensor = self.head(functional.hardswish(x, inplace=True).mean((2, 3)))
        return result


MODELS: dict[str, Callable[[], nn.Module]] = {
    "resnet_by_hand": resnet,
    "convnext_by_hand": ConvNeXt,
    "efficientnet_by_hand": lambda: efficientnet(nn.SiLU),
    "mobilenet_by_hand": lambda: efficientnet(nn.Hardswish),
    "densenet_by_hand": lambda: DenseNet(efficient=False),
    "densenet_recomputed_by_hand": lambda: DenseNet(efficient=True),
    "swin_by_hand": Swin,
    "vit_by_hand": ViT,
    "unet_by_hand": UNet,
    "shuffled_by_hand": Shuffled,
}


def _trained(make: Callable[[], nn.Module], *, last: bool, cast: bool) -> Callable[[Wrap], Any]:
    """Train on pictures, channels last in memory or not, in bf16 or not, with evaluation and averaged weights."""

    def run(wrap: Wrap) -> Any:
        model = make()
        layout = torch.channels_last if last else torch.contiguous_format
        model = model.to(memory_format=layout) if last else model
        optimizer = torch.optim.SGD(
            [p for p in model.parameters() if p.requires_grad], lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4
        )
        wrap(model, optimizer)
        criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
        mean = {name: value.clone() for name, value in model.state_dict().items()}
        seen: list[Any] = []
        for step in range(4):
            x = batch(step, 4, 3, 32, 32).contiguous(memory_format=layout)
            with torch.autocast("cpu", torch.bfloat16, enabled=cast):
                loss = criterion(model(x * 0.7 + x.flip(0) * 0.3).float(), torch.tensor([1, 2, 3, step]))
            loss.backward()
            seen += [loss.detach().clone(), nn.utils.clip_grad_norm_(model.parameters(), 1.0)]
            optimizer.step()
            optimizer.zero_grad()
            for name, value in model.state_dict().items():
                if value.is_floating_point():
                    mean[name].mul_(0.9).add_(value, alpha=0.1)
            if step == 2:
                model.eval()
                with torch.inference_mode():
                    seen.append(model(x).clone())
                model.train()
        return seen, weights(model), list(mean.values())

    return run


for _name, _make in MODELS.items():
    IDIOMS[_name] = _trained(_make, last=False, cast=False)
    IDIOMS[f"{_name}_channels_last"] = _trained(_make, last=True, cast=False)
    IDIOMS[f"{_name}_autocast"] = _trained(_make, last=False, cast=True)
