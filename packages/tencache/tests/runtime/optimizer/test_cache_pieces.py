"""Late updates of large parameters are made in pieces, which change no bit."""

import pytest
import torch
from tencache_cases import Case, make, same_state, same_tensors, train, wrap

from tencache.runtime.optimizer import cache_pieces, known_optimizers, sliced_step
from tencache.runtime.tensors import parameter_entry


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (torch.optim.AdamW, {"amsgrad": True}),
        (torch.optim.AdamW, {"foreach": True}),
        (torch.optim.ASGD, {}),
        (torch.optim.NAdam, {}),
        (torch.optim.RAdam, {}),
        (torch.optim.Rprop, {}),
        (torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
    ],
)
def test_every_optimizer_has_the_same_bits_in_pieces(monkeypatch, kind, options):
    monkeypatch.setattr(known_optimizers, "WORTH_BYTES", 0)
    monkeypatch.setattr(parameter_entry, "PIECE_BYTES", 1024)
    cut = []

    def counted(*arguments):
        cut.append(1)
        return cache_pieces.step_in_pieces(*arguments)

    monkeypatch.setattr(sliced_step, "step_in_pieces", counted)
    case = Case(optimizer=kind, options={"lr": 1e-2, **options}, clip=1.0)
    reference, its = make(case)
    losses = train(case, reference, its, 5)
    model, optimizer = make(case)
    cached = wrap(model, optimizer, budget="60%")
    assert train(case, model, optimizer, 5) == losses
    assert len(cut) > 20
    assert same_tensors(model.state_dict(), reference.state_dict())
    assert same_state(optimizer, its)
    cached.unwrap()


def test_fused_optimizers_are_not_cut(monkeypatch):
    """They make nothing on the way that would have to stay in the cache."""
    monkeypatch.setattr(parameter_entry, "PIECE_BYTES", 1024)
    model, _ = make(Case())
    cached = wrap(model, None)
    entry = next(entry for entry in cached.entries if entry.size_bytes > 1024)
    gradient, state = torch.zeros(entry.shape), {"step": torch.tensor(1.0), "exp_avg": torch.zeros(entry.shape)}
    assert cache_pieces.may_be_cut(entry, gradient, state, {"fused": None})
    assert not cache_pieces.may_be_cut(entry, gradient, state, {"fused": True})
    assert not cache_pieces.may_be_cut(entry, gradient.T.contiguous().T, state, {"fused": None})
    assert not cache_pieces.may_be_cut(entry, gradient, {"row": torch.zeros(3)}, {"fused": None})
    cached.unwrap()
