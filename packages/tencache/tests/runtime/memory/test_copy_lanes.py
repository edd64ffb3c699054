"""A copy that fails is raised where it is waited for."""

import threading
import time

import pytest
import torch
from tencache_cases import Case, make, same_tensors, train, wrap

from tencache import CopyError
from tencache.runtime.memory.copy_lanes import Copy, IssuingLane


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


def wait_until(condition):
    until = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.001)


def test_a_copy_is_begun_while_the_one_before_it_still_lands():
    """A thread that waited for each gradient would leave the device's queue empty in between."""
    may_land, begun = threading.Event(), []
    lane = IssuingLane("test", begun.append, lambda _: may_land.wait(10), over_when_begun=False)
    copies = [Copy(torch.empty(0), lambda: torch.empty(0), 0) for _ in range(5)]
    for copy in copies:
        lane.put(copy)
    wait_until(lambda: len(begun) == 5)
    assert begun == copies
    assert not any(copy.done for copy in copies)
    may_land.set()
    lane.wait_empty()
    assert all(copy.done for copy in copies)
    lane.close()


@pytest.mark.parametrize("over_when_begun", [False, True])
def test_what_fails_while_landing_is_raised_where_it_is_waited_for(over_when_begun):
    def fail(_):
        raise MemoryError("injected")

    lane = IssuingLane("test", lambda _: None, fail, over_when_begun=over_when_begun)
    copy = Copy(torch.empty(0), lambda: torch.empty(0), 0, lambda: None)
    lane.put(copy)
    if not over_when_begun:
        with pytest.raises(CopyError, match="injected"):
            copy.wait()
    lane.wait_empty()
    lane.close()
