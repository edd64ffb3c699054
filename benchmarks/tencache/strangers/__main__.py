"""Programs that tencache was not made with: each is trained unwrapped and wrapped, and every bit is compared.

`python benchmarks/tencache/strangers [NAME ...]`. Each must be the same, raise as unwrapped, or be refused with a
sentence. The idioms need torch alone; models of transformers, timm, torchvision and peft are tried where these are
installed.
"""

import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any
from unittest.mock import patch

import contexts
import copies
import gradients
import loops
import models
import outside
import parts
import torch
import unusual
import vision
from common import IDIOMS, Idiom, Wrap
from torch import nn

import tencache
from tencache.runtime.tensors import activations

sys.path.insert(0, str(Path(__file__).parents[3] / "packages" / "tencache" / "tests"))
from tencache_cases import same_tensors

# Each enters its programs.
ROOMS = (copies, gradients, loops, contexts, parts, outside, unusual, vision, models)
SETTINGS: dict[str, dict[str, Any]] = {
    "60 %": {"budget": "60%"},
    "90 %, checked": {"budget": "90%", "verify": True},
    "saved tensors wait on the host": {"budget": "70%", "activations": 1},
    "half in the file": {"budget": "100%", "nvme": tempfile.gettempdir()},
    "all fits": {"budget": "1000%"},
}


def outcome(program: Idiom, wrap: Wrap) -> Any:
    """Return what a program comes to, or the error that it raises."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return program(wrap)
        except Exception as error:  # noqa: BLE001  whatever it is, it is compared
            return error


def judge(program: Idiom, options: dict[str, Any], plain: Any) -> str:
    """Return "same", "raised", "refused: why" or "WRONG: how"."""
    wrapped: list[tencache.Cached] = []

    def wrap(model: nn.Module, optimizer: Any) -> tencache.Cached:
        more = dict(options)
        if "nvme" in more:
            sizes = [p.nbytes + 64 for p in model.parameters()]
            more["host"] = 3 * sum(sizes) // 2 + 4 * max(sizes)
        wrapped.append(tencache.wrap(model, optimizer, link="2GB/s", **more))
        return wrapped[-1]

    found = outcome(program, wrap)
    try:
        for cached in wrapped:
            cached.unwrap()
    except Exception as error:  # noqa: BLE001  judged here
        found = found if isinstance(found, Exception) else error
    if isinstance(found, tencache.RefusedError):
        return f"refused: {found}"
    if isinstance(found, Exception):
        both = type(found) is type(plain)
        return f"raised as unwrapped: {plain}" if both else f"WRONG: raises {type(found).__name__}: {found}"
    if isinstance(plain, Exception):
        return f"WRONG: does not raise {type(plain).__name__}: {plain}"
    return "same" if same_tensors(found, plain) else "WRONG: other bits"


def main() -> None:
    """Try the programs that are named, or all."""
    torch.set_num_threads(1)
    names = sys.argv[1:] or list(IDIOMS)
    counts: dict[str, int] = {}
    with patch.object(activations, "WORTH_BYTES", 256):
        for name in names:
            plain = outcome(IDIOMS[name], lambda *_: None)
            if isinstance(plain, ImportError):
                sys.stdout.write(f"{name:<40} not installed ({plain.name})\n")
                continue
            again = outcome(IDIOMS[name], lambda *_: None)
            if not isinstance(plain, Exception) and not same_tensors(plain, again):
                sys.stdout.write(f"{name:<40} differs from itself unwrapped\n")
                continue
            verdicts = {setting: judge(IDIOMS[name], options, plain) for setting, options in SETTINGS.items()}
            for verdict in verdicts.values():
                kind = verdict.split(":")[0]
                counts[kind] = counts.get(kind, 0) + 1
            shown = "; ".join(f"[{setting}] {verdict}" for setting, verdict in verdicts.items() if verdict != "same")
            sys.stdout.write(f"{name:<40} {shown[:900] or 'same'}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{counts}\n")
    if any(kind.startswith("WRONG") for kind in counts):
        os._exit(1)


if __name__ == "__main__":
    main()
