import math
from dataclasses import fields, replace

from hypothesis import given
from hypothesis import strategies as st
from live_cases import NOW, decide_by, job, nodes, running, settings, snapshot

from rltune.live.decide.decide import Situation
from rltune.live.journal import packing as pack
from rltune.live.see.backend import Change, ChangeKind
from rltune.live.see.holdings import Holdings, Intent
from rltune.live.see.snapshot import LiveJob, Reservation

QUEUE = [
    running(1, "n0", 4),
    job(2, excluded_nodes=("n1",), features="a|b", array_id=2, array_tasks="1-5%2", array_waiting=5, nice=-3),
    job(3, limit_s=math.nan, site_factor=None, priority_by_hand=True, name='quoted " and ü'),
]


def told(value):
    """Spell a value out, NaN included."""
    return repr([getattr(value, field.name) for field in fields(value)])


def test_a_snapshot_comes_back_as_it_was():
    """Every field of every job, node, partition and reservation."""
    window = Reservation(name="m", start_s=NOW, end_s=NOW + 9, node_names=("n0",), flags=("MAINT",))
    seen = snapshot(QUEUE, nodes(4, 2, features=("a",)), reservations=[window])
    assert told(pack.unpack_snapshot(pack.pack_snapshot(seen))) == told(seen)
    assert told(pack.unpack_snapshot(pack.pack_snapshot(snapshot([], ())))) == told(snapshot([], ()))


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=5))
def test_times_come_back_to_the_last_bit(times):
    """A replay is exact only if its inputs are."""
    seen = snapshot([job(i, submit_s=t) for i, t in enumerate(times)])
    back = pack.unpack_snapshot(pack.pack_snapshot(seen))
    assert [j.submit_s for j in back.jobs] == times


def test_a_decision_comes_back_and_packs_to_the_same_bytes():
    """Bytes are what a replay compares."""
    made = decide_by(settings(), Situation(snapshot(QUEUE)))
    data = pack.pack_decision(made)
    assert told(pack.unpack_decision(data)) == told(made)
    assert pack.pack_decision(pack.unpack_decision(data)) == data


def test_holdings_and_estimates_come_back():
    """With lists, numbers and jobs given up."""
    held = Holdings.after([Intent(Change(1, ChangeKind.EXCLUDE_NODES, nodes=("a",)), 2.5, ())])
    held.take(Intent(Change(1, ChangeKind.SITE_FACTOR, value=7), 2.5, -1))
    held.given_up[9] = 1.5
    assert pack.unpack_holdings(pack.pack_holdings(held)) == held
    assert pack.unpack_estimates(pack.pack_estimates({3: 0.1, 4: 2.0})) == {3: 0.1, 4: 2.0}


def test_a_job_told_in_full_takes_little_room():
    """A thousand waiting jobs in about 30 bytes each."""
    queue = [job(i, i % 4, i % 90, user=f"u{i % 30}") for i in range(1000)]
    assert len(pack.pack_snapshot(snapshot(queue))) < 30_000


def test_every_field_of_a_job_is_packed():
    """A field that differs from its default is found again, whichever it is."""
    odd = {"str": "x", "int": 7, "float": 1.5, "bool": True, "tuple[str, ...]": ("a",), "tuple[int, ...]": (1,)}
    for field in fields(LiveJob):
        kind = str(field.type).split(" |")[0]
        changed = replace(job(1), **{field.name: odd[kind]})
        assert repr(pack.unpack_snapshot(pack.pack_snapshot(snapshot([changed]))).jobs) == repr((changed,))
