"""Order, fences and lifetimes on a device that does everything late: right for any order that streams allow.

The reference is a twin without tencache: its parameters are all on the device, and are sent up and down, one by one and
synchronously, around each step of an optimizer on the host.
"""

import copy
from functools import cache

import pytest
import torch
from tencache_cases import Case, make, same_state, same_tensors, train, with_config

import tencache

DEVICE = "standin"
STEPS = 6
CASES = {
    "plain": Case(),
    "tied": with_config(tied=True),
    "accumulation": Case(micro_batches=3),
    "clipping": Case(clip=0.5),
    "checkpoint_reentrant": with_config(recompute="reentrant"),
    "checkpoint_nonreentrant": with_config(recompute="nonreentrant"),
    "evaluation": Case(evaluate_every=2),
    "batch_shape": Case(lengths=(12, 12, 7)),
    "frozen": Case(frozen=True),
}


class Twin:
    """A model on the device beside the one on the host that the optimizer updates."""

    def __init__(self, model):
        self._host = model
        self._device = copy.deepcopy(model).to(DEVICE)
        # torch makes new parameters on a device of this kind, and so two of a tied one.
        if model.config.tied:
            self._device.head.weight = self._device.tokens.weight

    def __call__(self, tokens):
        with torch.no_grad():
            for mine, theirs in zip(self._device.parameters(), self._host.parameters(), strict=True):
                mine.copy_(theirs)
        return self._device(tokens)

    def collect(self):
        """Bring the gradients to the host."""
        for mine, theirs in zip(self._device.parameters(), self._host.parameters(), strict=True):
            theirs.grad = None if mine.grad is None else mine.grad.cpu()
            mine.grad = None

    def eval(self):
        self._device.eval()

    def train(self):
        self._device.train()

    def parameters(self):
        self.collect()
        return self._host.parameters()


@cache
def reference(name):
    """Losses, parameters and optimizer of the run without tencache."""
    model, optimizer = make(CASES[name])
    twin = Twin(model)
    clipped = CASES[name].clip is not None
    optimizer.register_step_pre_hook(lambda *_: None if clipped else twin.collect())
    return train(CASES[name], twin, optimizer, STEPS, DEVICE), model, optimizer


def wrapped(case, **options):
    model, optimizer = make(case)
    return model, optimizer, tencache.wrap(model, optimizer, device=DEVICE, **{"budget": "35%", **options})


@pytest.mark.parametrize("budget", ["20%", "60%"])
@pytest.mark.parametrize("name", CASES)
def test_a_run_on_the_device_is_the_unwrapped_one(standin, name, budget):
    losses, expected, expected_optimizer = reference(name)
    model, optimizer, cached = wrapped(CASES[name], budget=budget)
    assert train(CASES[name], model, optimizer, STEPS, DEVICE) == losses
    assert same_tensors(model.state_dict(), expected.state_dict())
    assert same_state(optimizer, expected_optimizer)
    cached.unwrap()
    assert same_tensors(model.state_dict(), expected.state_dict())
