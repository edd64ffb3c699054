"""What a job would have without us, told from Slurm's own factors."""

from hypothesis import given
from hypothesis import strategies as st
from live_cases import MemoryCluster, job, snapshot

from rltune.live.see.backend import Change, ChangeKind
from rltune.live.see.holdings import Holdings, Intent
from rltune.live.see.untouched import untouched


@given(own=st.integers(-20_000, 20_000), number=st.integers(-30_000, 30_000))
def test_what_slurm_clamps_is_not_lost(own, number):
    """Whatever we set and whatever Slurm made of it, without us the job has what it had before."""
    one = job(1, priority=max(1, own), other_factors=own)
    change = Change(1, ChangeKind.SITE_FACTOR, value=number)
    cluster = MemoryCluster(snapshot([one]))
    cluster.apply([change])
    holdings = Holdings.after([Intent(change, one.submit_s, before=0)])
    assert cluster.now.jobs[0].priority == max(1, own + number)
    assert untouched(cluster.now, holdings).jobs[0] == one
