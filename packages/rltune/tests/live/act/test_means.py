"""What a way of reaching Slurm cannot do is refused before anything is changed, with what to write instead."""

import pytest
from live_cases import MemoryCluster, job, settings, snapshot

from rltune.errors import InputError
from rltune.live.act.means import impossible
from rltune.live.controller import Controller
from rltune.live.journal.store import Journal
from rltune.live.slurm.rest_dialect import RestDialect

OLD, NEW = RestDialect(38).cannot, RestDialect(42).cannot
QOS = {"order": "las", "qos": ["yields"]}


@pytest.mark.parametrize(
    ("asked", "cannot", "said"),
    [
        ({}, frozenset(), ""),
        ({}, NEW, ""),
        ({}, OLD, 'steer = "exclude" cannot be done'),
        ({"steer": "pin"}, OLD, 'steer = "pin" cannot be done'),
        ({"steer": "off"}, OLD, ""),
        ({"numbers": {"channel": "priority"}}, NEW, 'numbers.channel = "priority" cannot be done'),
        ({"preempt": QOS}, NEW, "preempt.order cannot be done"),
        ({"steer": "off", "tell_users": True}, OLD, "tell_users cannot be done"),
        ({"tell_users": True}, NEW, ""),
    ],
)
def test_what_cannot_be_done_is_said(asked, cannot, said):
    """Slurm's commands can do all of it, slurmrestd less, the older the less."""
    told = impossible(settings(**asked), cannot)
    assert told.startswith(said)
    assert bool(told) == bool(said)


class Unable(MemoryCluster):
    def cannot(self):
        return OLD


def test_the_controller_refuses_before_it_changes_anything(tmp_path):
    """No number is set, and no lock is taken; to watch it is good enough."""
    cluster = Unable(snapshot([job(i) for i in range(1, 12)]))
    with pytest.raises(InputError, match="set it to off"):
        Controller(cluster, Journal.create(tmp_path / "j.db"), settings()).cycle()
    assert cluster.batches == []
    assert cluster.records == {}
    assert Controller(cluster, Journal.create(tmp_path / "k.db"), settings(mode="shadow")).cycle().outcome == "ok"
