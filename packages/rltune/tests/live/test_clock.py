import threading
import time

from rltune.live.clock import SystemClock


def test_the_machines_clock():
    """Time of day, as everybody has it."""
    before = time.time()
    assert before <= SystemClock().now_s() <= time.time()


def test_a_fast_clock():
    """At sixty times the speed, from what it showed at a moment."""
    at_s = time.time() - 10
    clock = SystemClock(60.0, shown_s=5000.0, at_s=at_s)
    before, shown, after = time.time(), clock.now_s(), time.time()
    assert 5000 + 60 * (before - at_s) <= shown <= 5000 + 60 * (after - at_s)
    begin, real = clock.elapsed_s(), time.monotonic()
    clock.wait(6.0)
    assert 0.05 < time.monotonic() - real < 3
    assert clock.elapsed_s() - begin >= 6.0


def test_waking_ends_one_wait():
    """A reload must not make all cycles to come follow at once."""
    clock = SystemClock(60.0)
    clock.wake()
    begin = time.monotonic()
    clock.wait(6000.0)
    assert time.monotonic() - begin < 30
    begin = time.monotonic()
    clock.wait(6.0)
    assert time.monotonic() - begin >= 0.1


def test_a_wait_can_be_ended():
    """By a signal handler, or another thread."""
    clock = SystemClock()
    threading.Timer(0.05, clock.wake).start()
    begin = time.monotonic()
    clock.wait(60.0)
    assert time.monotonic() - begin < 30
