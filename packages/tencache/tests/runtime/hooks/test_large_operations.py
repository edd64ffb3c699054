"""Operations of several parameters that do not fit as one are computed part by part, bit for bit the same."""

import pytest
import torch
from tencache_cases import same_state, same_tensors, shows_kept, shows_refused
from torch import nn

import tencache
from tencache import RefusedError

WIDTH = 16


class Recurrent(nn.Module):
    """A recurrent layer between two others, of a padded or a packed batch."""

    def __init__(self, kind=nn.LSTM, *, packed=False, **options):
        super().__init__()
        self.packed = packed
        self.inner = kind(WIDTH, WIDTH, **options)
        self.head = nn.Linear(WIDTH * (1 + options.get("bidirectional", False)), WIDTH)

    def forward(self, x):
        y = nn.utils.rnn.pack_padded_sequence(x, [4, 2, 2]) if self.packed else x
        y, state = self.inner(y)
        y = y.data if self.packed else y
        state = state if isinstance(state, tuple) else (state,)
        return self.head(y).square().mean() + sum(one.square().mean() for one in state)


class Attending(nn.Module):
    """Attention, whose two projections torch calls as one."""

    def __init__(self):
        super().__init__()
        self.inner = nn.MultiheadAttention(WIDTH, 2)

    def forward(self, x):
        return self.inner(x, x, x)[0].square().mean()


MODELS = {
    "lstm": lambda: Recurrent(num_layers=3),
    "lstm_with_dropout": lambda: Recurrent(num_layers=3, dropout=0.2, batch_first=True),
    "lstm_both_ways": lambda: Recurrent(num_layers=3, bidirectional=True),
    "lstm_without_bias": lambda: Recurrent(num_layers=3, bias=False, batch_first=True),
    "lstm_packed": lambda: Recurrent(num_layers=3, packed=True),
    "gru": lambda: Recurrent(nn.GRU, num_layers=3),
    "rnn": lambda: Recurrent(nn.RNN, num_layers=3),
    "attention": Attending,
}


def train(model, optimizer, dtype=torch.float32):
    losses = []
    for step in range(4):
        x = torch.randn(4, 3, WIDTH, generator=torch.Generator().manual_seed(step), dtype=dtype)
        loss = model(x)
        loss.backward()
        losses.append(loss.detach())
        optimizer.step()
        optimizer.zero_grad()
    return losses


def assert_same(make_model, budget, dtype=torch.float32, **options):
    runs = []
    for wrapped in (False, True):
        torch.manual_seed(0)
        model = make_model().to(dtype)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        cached = tencache.wrap(model, optimizer, budget=budget, **options) if wrapped else None
        torch.manual_seed(1)
        losses = train(model, optimizer, dtype)
        if cached is not None:
            cached.unwrap()
        runs.append((losses, model, optimizer))
    (losses, model, optimizer), (wrapped_losses, wrapped_model, wrapped_optimizer) = runs
    assert same_tensors(wrapped_losses, losses)
    assert same_tensors(wrapped_model.state_dict(), model.state_dict())
    assert same_state(wrapped_optimizer, optimizer)


@shows_kept("LSTM, GRU and RNN whose layers fit one by one, and attention whose projections do")
@pytest.mark.parametrize("name", MODELS)
def test_what_does_not_fit_as_one_is_computed_part_by_part(name):
    assert_same(MODELS[name], "80%")


def test_layers_are_computed_one_by_one_in_double_precision_too():
    """Torch computes these without the library that it has for single precision."""
    assert_same(MODELS["lstm_with_dropout"], "60%", torch.float64, verify=True)


def test_what_a_node_asks_for_together_is_placed_together():
    """Backward asks for both weights one after another: the first must leave room in one piece for the second."""
    assert_same(lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH), Recurrent()), "80%")


@shows_refused(
    "one layer of an LSTM larger than the budget: it is one operation", "raise the budget as the message says"
)
def test_a_layer_of_an_lstm_says_what_budget_it_needs():
    model = Recurrent()
    cached = tencache.wrap(model, budget="60%")
    with pytest.raises(RefusedError, match="raise the budget to") as refusal:
        model(torch.ones(4, 3, WIDTH))
    cached.unwrap()
    enough = int(str(refusal.value).split("raise the budget to ")[1].split()[0])
    cached = tencache.wrap(model, budget=enough)
    model(torch.ones(4, 3, WIDTH)).backward()
    cached.unwrap()
