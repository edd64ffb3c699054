"""The generator: same seed, same trace; marginals as published; habits, bursts and cycles are there."""

import numpy as np
import pytest

from rltune.cluster import Cluster, NodeGroup
from rltune.errors import InputError
from rltune.trace.profiles import PROFILES
from rltune.trace.synthetic import ROUND_LIMITS_S, synthesise

# AcmeTrace's cluster_summary.csv (NSDI'24): mean and median run time (s), GPUs a job, failed and killed by count.
# Shares of single-GPU jobs are those of per-job copies (Philly 0.87, Venus 0.52, PAI 0.77), scaled to that mean.
# PAI: whole GPUs over all instances of its completed tasks, failures by the task table.
PUBLISHED = {
    "philly": {"mean": 18_006, "median": 874, "gpus": 1.928, "single": 0.82, "failed": 0.305, "killed": 0.090},
    "helios": {"mean": 6_652, "median": 206, "gpus": 3.716, "single": 0.77, "failed": 0.155, "killed": 0.221},
    "pai": {"mean": 4_787, "median": 481, "gpus": 4.97, "single": 0.77, "failed": 0.225, "killed": 0.0},
}
GPU_TIME = {  # shares of GPU time by how jobs ended, of the same file
    "philly": {"completed": 0.321, "failed": 0.386, "killed": 0.294},
    "helios": {"completed": 0.513, "failed": 0.093, "killed": 0.394},
}
KINDS = tuple(PUBLISHED)


@pytest.fixture(scope="module", params=KINDS)
def made(request):
    return request.param, synthesise(request.param, 60_000, seed=1)


def share(jobs, state):
    return np.mean([s == state for s in jobs.state.to_list()])


def test_marginals_are_the_published_ones(made):
    """Within 2 % of mean and median run time and mean GPUs, 0.01 of shares: far less than two traces differ by."""
    kind, jobs = made
    wanted = PUBLISHED[kind]
    assert jobs.duration_s.mean() == pytest.approx(wanted["mean"], rel=0.02)
    assert np.median(jobs.duration_s) == pytest.approx(wanted["median"], rel=0.02)
    assert jobs.gpus.mean() == pytest.approx(wanted["gpus"], rel=0.02)
    assert (jobs.gpus == 1).mean() == pytest.approx(wanted["single"], abs=0.01)
    assert share(jobs, "failed") == pytest.approx(wanted["failed"], abs=0.005)
    assert share(jobs, "killed") == pytest.approx(wanted["killed"], abs=0.005)


@pytest.mark.parametrize("kind", GPU_TIME)
def test_gpu_time_by_how_jobs_end(kind):
    """Within 0.08 over three seeds: few large jobs make this figure."""
    found = dict.fromkeys(GPU_TIME[kind], 0.0)
    for seed in range(3):
        jobs = synthesise(kind, 60_000, seed=seed)
        area = jobs.gpus * jobs.duration_s
        for code, state in enumerate(jobs.state.names):
            found[state] += area[jobs.state.codes == code].sum() / area.sum() / 3
    for state, wanted in GPU_TIME[kind].items():
        assert found[state] == pytest.approx(wanted, abs=0.08)


def test_shares_of_vcs_and_gpu_types(made):
    kind, jobs = made
    if PROFILES[kind].vcs:
        found = np.bincount(jobs.vc.codes, minlength=len(PROFILES[kind].vcs)) / len(jobs)
        np.testing.assert_allclose(found, np.array(PROFILES[kind].vcs) / sum(PROFILES[kind].vcs), atol=0.01)
        assert jobs.vc.names[0] == "vc1"
    else:
        assert jobs.vc.names == ()
        counts = {
            "MISC": 696,
            "T4": 227,
            None: 218,
            "P100": 73,
            "V100": 29,
            "V100M32": 19,
        }  # PAI's task table, thousands
        types = jobs.gpu_types.to_list()
        for name, count in counts.items():
            assert types.count(name) / len(jobs) == pytest.approx(count / sum(counts.values()), abs=0.03)
        assert (jobs.cpus / jobs.gpus).min() >= 4
        assert np.isfinite(jobs.mem_gib).all()


def test_run_times_depend_on_size():
    jobs = synthesise("philly", 60_000, seed=1)
    median = [np.median(jobs.duration_s[jobs.gpus == g]) for g in (1, 4, 8)]
    assert median[1] > 3 * median[0]
    assert median[2] > median[1]


def test_run_times_are_heavy_tailed(made):
    _, jobs = made
    longest = np.sort(jobs.duration_s)[::-1]
    assert longest[: len(longest) // 20].sum() > 0.5 * longest.sum()  # a twentieth of the jobs makes half of the time
    assert longest[0] <= PROFILES[made[0]].cap_s


def test_no_job_makes_the_load():
    for kind in KINDS:
        for jobs in (synthesise(kind, 60_000, seed=2), synthesise(kind, 2_000, seed=2)):
            area = jobs.gpus * jobs.duration_s
            assert area.max() <= 0.03 * area.sum()


def test_arrivals_come_in_bursts(made):
    """More bursty than Poisson: the times between submits spread wider, and so do the counts per hour."""
    _, jobs = made
    gaps = np.diff(jobs.submit_s)
    assert gaps.std() / gaps.mean() > 1.3
    hourly = np.bincount((jobs.submit_s // 3600).astype(int))
    assert hourly.var() / hourly.mean() > 5


@pytest.mark.parametrize("kind", KINDS)
def test_arrivals_have_day_and_week_cycles(kind):
    jobs = synthesise(kind, 60_000, seed=4, days=84)
    hour, day = (jobs.submit_s // 3600).astype(int) % 24, (jobs.submit_s // 86_400).astype(int) % 7
    by_hour, by_day = np.bincount(hour, minlength=24), np.bincount(day, minlength=7)
    assert np.corrcoef(by_hour, PROFILES[kind].hours)[0, 1] > 0.6
    assert by_day[5:].mean() < by_day[:5].mean()
    hourly = np.bincount((jobs.submit_s // 3600).astype(int), minlength=84 * 24).astype(float)
    assert np.corrcoef(hourly[:-24], hourly[24:])[0, 1] > 0.03
    assert np.corrcoef(hourly[:-1], hourly[1:])[0, 1] > 0.2


def test_users_repeat_their_work_with_similar_run_times(made):
    _, jobs = made
    log = np.log(jobs.duration_s)
    work = jobs.name.codes
    count = np.bincount(work)
    mean = np.bincount(work, log) / np.maximum(count, 1)
    often = count[work] >= 5
    assert often.mean() > 0.3
    within = np.mean((log - mean[work])[often] ** 2)
    assert within < 0.6 * log[often].var()
    users_of_work = {*zip(work.tolist(), jobs.user.codes.tolist(), strict=True)}
    assert len(users_of_work) == len(set(work.tolist()))


def test_a_piece_of_work_mostly_keeps_its_size():
    jobs = synthesise("philly", 20_000, seed=1)
    pairs, count = np.unique(np.stack([jobs.name.codes, jobs.gpus]), axis=1, return_counts=True)
    usual = np.zeros(len(jobs.name.names))
    np.maximum.at(usual, pairs[0], count)
    assert usual.sum() / len(jobs) > 0.85


def test_few_users_submit_most(made):
    _, jobs = made
    count = np.sort(np.bincount(jobs.user.codes))[::-1]
    assert count[: len(count) // 5].sum() > 0.4 * len(jobs)


def test_failed_jobs_mostly_end_early():
    for kind in KINDS:
        jobs = synthesise(kind, 30_000, seed=5)
        codes = jobs.state.codes
        assert np.median(jobs.duration_s[codes == 1]) < 0.6 * np.median(jobs.duration_s[codes == 0])


def test_limits_are_round_ample_and_sometimes_missing(made):
    kind, jobs = made
    told = ~np.isnan(jobs.limit_s)
    assert set(jobs.limit_s[told]) <= set(ROUND_LIMITS_S)
    assert (jobs.limit_s[told] >= jobs.duration_s[told]).all()
    assert 2 < np.median(jobs.limit_s[told] / jobs.duration_s[told]) < 10
    assert told.mean() == pytest.approx(1 - PROFILES[kind].no_limit, abs=0.15)


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_trace(kind):
    one, same, other = (synthesise(kind, 2_000, seed=s) for s in (7, 7, 8))
    assert one.to_polars().equals(same.to_polars())
    assert not one.to_polars().equals(other.to_polars())


@pytest.mark.parametrize(
    ("kind", "cluster"), [("philly", "philly-slice"), ("helios", "helios-slice"), ("pai", "pai-slice")]
)
@pytest.mark.parametrize("load", [0.5, 1.2])
def test_the_load_asked_is_the_load_made(kind, cluster, load):
    machine = Cluster.preset(cluster)
    jobs = synthesise(kind, 5_000, seed=3, load=load, cluster=machine)
    span = jobs.submit_s[-1] - jobs.submit_s[0]
    assert jobs.gpus @ jobs.duration_s / (machine.gpu_count * span) == pytest.approx(load, rel=1e-3)


def test_a_clusters_vcs_and_types_are_used_and_no_job_is_larger_than_them():
    helios = Cluster.preset("helios-slice")
    jobs = synthesise("helios", 20_000, seed=3, load=0.9, cluster=helios)
    assert set(jobs.vc.names) == set(helios.vcs)
    size = {vc: sum(g.count * g.gpus for g in helios.groups if vc in g.vc) for vc in helios.vcs}
    assert all(g <= size[vc] for g, vc in zip(jobs.gpus.tolist(), jobs.vc.to_list(), strict=True))
    t4 = Cluster((NodeGroup(count=2, gpus=2, gpu_type="T4"), NodeGroup(count=8, gpus=8, gpu_type="other")))
    jobs = synthesise("pai", 5_000, seed=3, load=0.9, cluster=t4)
    types = jobs.gpu_types.to_list()
    assert set(types) == {"T4", None}
    assert max(g for g, t in zip(jobs.gpus.tolist(), types, strict=True) if t == "T4") <= 4
    plain = synthesise("pai", 500, seed=3, load=0.9, cluster=Cluster.uniform(nodes=4, gpus=8))
    assert plain.gpu_types.names == ()
    assert plain.gpus.max() <= 32


def test_the_span_in_days():
    jobs = synthesise("philly", 1_000, days=3)
    assert jobs.submit_s[0] == 0
    assert jobs.submit_s[-1] == 3 * 86_400
    usual = synthesise("philly", 1_315)
    assert usual.submit_s[-1] == pytest.approx(86_400, rel=0.01)


@pytest.mark.parametrize("jobs", [1, 2, 19, 21])
@pytest.mark.parametrize("kind", KINDS)
def test_small_traces(kind, jobs):
    made = synthesise(kind, jobs, load=0.9, cluster=Cluster.uniform(nodes=2, gpus=8))
    assert len(made) == jobs
    assert (made.duration_s >= 1).all()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kind": "frontier"}, "no kind of synthetic trace 'frontier'; there are: philly, helios, pai"),
        ({"jobs": 0}, "0 jobs cannot be made"),
        ({"load": 0.9}, "a load needs a cluster"),
        ({"load": 0.9, "days": 3, "cluster": Cluster.uniform(nodes=1, gpus=1)}, "give the load or the days, not both"),
        ({"load": -1, "cluster": Cluster.uniform(nodes=1, gpus=1)}, "load -1 should be more than 0"),
        ({"days": 0}, "days 0 should be more than 0"),
        ({"cluster": Cluster.uniform(nodes=1, gpus=0)}, "the cluster has no GPUs"),
    ],
)
def test_settings_that_cannot_be(settings, said):
    with pytest.raises(InputError, match=said):
        synthesise(**settings)
