import threading
import time

import pytest

from rltune.live.clock import SystemClock


def test_the_machines_clock():
    """Time of day, as everybody has it."""
    assert SystemClock().now_s() == pytest.approx(time.time(), abs=30)


def test_a_fast_clock():
    """At sixty times the speed, from what it showed at a moment."""
    clock = SystemClock(60.0, shown_s=5000.0, at_s=time.time() - 100)
    assert clock.now_s() == pytest.approx(11_000.0, abs=1800)
    begin, real = clock.elapsed_s(), time.monotonic()
    clock.wait(6.0)
    assert 0.05 < time.monotonic() - real < 60
    assert clock.elapsed_s() - begin >= 6.0


def test_a_wait_can_be_ended():
    """By a signal handler, or another thread."""
    clock = SystemClock()
    threading.Timer(0.05, clock.wake).start()
    begin = time.monotonic()
    clock.wait(60.0)
    assert time.monotonic() - begin < 30
