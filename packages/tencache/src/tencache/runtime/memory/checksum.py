"""Checksums for `verify=True`: every byte and its place count."""

import torch
from torch import Tensor

_CHUNK = 1 << 20


def checksum(data: Tensor) -> int:
    """Return the sum of a flat uint8 tensor's bytes, each weighted with its position, modulo 2**63."""
    total = 0
    for start in range(0, data.numel(), _CHUNK):
        part = data[start : start + _CHUNK].to(torch.int64)
        places = torch.arange(start + 1, start + 1 + part.numel(), dtype=torch.int64, device=data.device)
        total += int((part * places).sum().item())
    return total % 2**63
