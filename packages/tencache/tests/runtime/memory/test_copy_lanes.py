"""A copy that fails is raised where it is waited for."""

import pytest
import torch
from tencache_cases import Case, make, same_tensors, train, wrap

from tencache import CopyError
from tencache.runtime.memory.copy_lanes import Copy


@pytest.mark.parametrize("way", ["up", "down"])
def test_a_dead_copy_thread_raises_where_it_is_waited_for(way):
    model, optimizer = make(Case())
    cached = wrap(model, optimizer)
    train(Case(), model, optimizer, 2)

    def fail():
        raise MemoryError("injected")

    getattr(cached.link, way).put(Copy(torch.empty(0), fail, 0))
    before = {name: parameter.clone() for name, parameter in model.state_dict().items()}
    with pytest.raises(CopyError, match="the copy thread died: MemoryError: injected"):
        train(Case(), model, optimizer, 1)
    cached.unwrap()
    assert same_tensors(model.state_dict(), before)
    optimizer.zero_grad()
    train(Case(), model, optimizer, 1)
