"""systemd hears that the controller is ready and lives, by a plain socket; one that hangs falls silent."""

import os
import socket
import time

import pytest
from live_cases import MemoryCluster, job, running, settings, snapshot

from rltune.live.clock import SystemClock
from rltune.live.controller import Controller
from rltune.live.journal.store import Journal
from rltune.live.watchdog import Watchdog

QUEUE = (running(100, "n0", 4), running(101, "n1", 4), job(1), job(2, 1, 10))


@pytest.fixture
def systemd(tmp_path):
    """A socket as systemd has one; `heard()` returns what came since."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listening.bind(str(tmp_path / "notify"))
    listening.setblocking(False)

    def heard():
        told = []
        while True:
            try:
                told.append(listening.recv(4096).decode())
            except BlockingIOError:
                return told

    yield str(tmp_path / "notify"), heard
    listening.close()


def environment(address, **more):
    return {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "200000", "WATCHDOG_PID": str(os.getpid()), **more}


def test_a_controller_says_that_it_is_ready_lives_and_ends(systemd, tmp_path):
    """Ready once, after the core was loaded; then a sign of life at least twice in the time allowed, also in a wait."""
    address, heard = systemd
    dog = Watchdog.of(environment(address))
    cluster = MemoryCluster(snapshot(QUEUE))
    driving = Controller(cluster, Journal.create(tmp_path / "j.db"), settings(cycle_s=0.5), SystemClock(), watchdog=dog)
    cycles, told = [], []
    cycle = driving.cycle

    def counted():
        cycles.append(cycle())
        told.extend(heard())  # the kernel keeps some ten lines
        cluster.pass_time(0.5)
        if len(cycles) == 2:
            driving.stop()
        return cycles[-1]

    driving.cycle = counted
    driving.run()
    told += heard()
    assert told.count("READY=1") == 1
    assert told[-1] != "READY=1"
    assert "STOPPING=1" in told
    assert sum(line == "WATCHDOG=1" for line in told) >= 4  # the wait of half a second has five tenths in it
    assert any(line.startswith("WATCHDOG=1\nSTATUS=cycle 1: 2 waiting") for line in told)


def test_a_controller_that_hangs_falls_silent(systemd, tmp_path):
    """Signs of life come from what it does, not from a thread beside it."""
    address, heard = systemd
    cluster = MemoryCluster(snapshot(QUEUE))
    driving = Controller(
        cluster,
        Journal.create(tmp_path / "j.db"),
        settings(),
        SystemClock(),
        watchdog=Watchdog.of(environment(address)),
    )
    seen = []

    def hang():
        heard()
        time.sleep(0.5)
        seen.extend(heard())
        raise KeyboardInterrupt

    cluster.observe = hang
    with pytest.raises(KeyboardInterrupt):
        driving.cycle()
    assert not seen


def test_nobody_listens_and_nothing_happens(tmp_path):
    """Without a systemd, with one that is gone, for another process or with nonsense: silence, and no error."""
    Watchdog.of({}).beat()
    Watchdog.of(environment(str(tmp_path / "gone"))).ready()
    Watchdog.of(environment("@rltune-nobody")).beat("x")
    assert Watchdog.of({}).every_s == float("inf")
    assert Watchdog.of(environment("x", WATCHDOG_PID="1")).timeout_s == 0
    assert Watchdog.of(environment("x", WATCHDOG_USEC="soon")).timeout_s == 0
    assert Watchdog.of(environment("x")).every_s == 0.1
