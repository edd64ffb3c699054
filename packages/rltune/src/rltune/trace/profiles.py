"""What the synthetic traces are calibrated to: published figures of Philly, Helios and PAI, and what shapes them.

Sources
- summary: cluster_summary.csv of AcmeTrace (Hu et al., NSDI'24), marginals of the three traces side by side: mean and
  median run time, GPUs a job, shares of jobs and of GPU time by how they ended. PAI's share of failures: its task
  table.
- Shares of sizes, run-time quantiles by size, VC shares and day and week cycles are statistics of public per-job
  copies: Philly 2017-10-03 to 2017-12-15, Helios Venus (run times cut at 48 h, the tail drawn on to the cap), PAI's
  completed GPU tasks. Shares of multi-GPU jobs are scaled so that the mean of the summary is met (Philly by 1.40;
  Helios, whose Venus has larger jobs than its other three clusters, by 0.49). Run times are scaled to the summary's
  median and their logarithms stretched so that its mean is met; `stretch` shows how little that takes.
- PAI: the summary's 0.683 GPUs a job are shares of one instance. Here shares are rounded up and instances multiplied,
  as the readers do. GPU types by the counts of the whole task table.
- Bursts (`restless` to `gap_spread`) were fitted to the same copies: the spread and quantiles of the times between
  submits, and variance and autocorrelation of submits per hour.
"""

from __future__ import annotations

from dataclasses import dataclass

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.9, 0.97, 0.99, 1.0)
CLASS_TOPS = (1, 2, 4, 8, 16)  # GPUs; larger jobs are the last class
DAY_S = 86_400.0


@dataclass(frozen=True)
class Profile:
    """One cluster's habits."""

    jobs_per_day: float
    sizes: dict[int, float]  # GPUs: share of the jobs
    run_s: tuple[tuple[float, ...], ...]  # per class of size, at QUANTILES
    run_median_s: float  # of run_s over all sizes
    median_s: float  # published
    mean_s: float  # published
    stretch: float  # of log run time around the median
    cap_s: float  # no job runs longer
    states: dict[str, float]  # share of the jobs; the rest completed
    failed_early: float  # share of the failed jobs that crash soon
    failed_shift: float  # how far along the order of run times the other failed jobs are moved
    killed_shift: float
    vcs: tuple[float, ...]  # shares of the jobs
    users: int
    hours: tuple[float, ...]  # rate by hour of the day
    days: tuple[float, ...]  # rate by day of the week, Monday first
    restless: float  # spread of the rate from block to block of hours
    alone: float  # share of the submissions that are one job
    burst: float  # tail exponent of the number of jobs in the others: lower is burstier
    burst_cap: int
    gap_s: float  # median time between the jobs of a burst
    gap_spread: float
    no_limit: float  # share of the users who ask no time
    gpu_types: dict[str, float] | None = None  # "" = any
    cpus_per_gpu: tuple[float, ...] = ()
    mem_gib_per_gpu: tuple[float, ...] = ()


PROFILES: dict[str, Profile] = {
    "philly": Profile(
        jobs_per_day=1_315,
        sizes={1: 0.8214, 2: 0.0316, 4: 0.0681, 8: 0.0666, 16: 0.0097, 32: 0.0026},
        run_s=(
            (8, 43, 139, 1_300, 3_602, 11_575, 79_210, 308_604, 2_592_000),
            (2, 10, 18, 30, 4_040, 161_012, 487_457, 663_215, 2_592_000),
            (6, 41, 348, 6_388, 74_109, 186_665, 467_039, 947_829, 2_592_000),
            (4, 40, 366, 8_636, 88_126, 267_966, 646_769, 1_072_940, 2_592_000),
            (14, 40, 238, 8_035, 56_479, 184_152, 572_660, 770_280, 2_592_000),
            (12, 26, 296, 2_588, 16_442, 62_155, 124_784, 204_574, 2_592_000),
        ),
        run_median_s=1_391.7,
        median_s=874,
        mean_s=18_006,
        stretch=0.9964,
        cap_s=30 * DAY_S,
        states={"failed": 0.305, "killed": 0.090},
        failed_early=0.6,
        failed_shift=1.15,
        killed_shift=1.15,
        vcs=(0.455, 0.169, 0.146, 0.089, 0.047, 0.026, 0.024, 0.014, 0.013, 0.008, 0.009),
        users=319,
        hours=(
            *(1.17, 1.19, 1.16, 1.12, 1.09, 1.21, 1.55, 1.53, 1.32, 0.95, 0.80, 0.69),
            *(0.64, 0.57, 0.58, 0.71, 0.80, 0.88, 0.78, 0.87, 0.88, 1.07, 1.14, 1.27),
        ),
        days=(0.89, 1.12, 1.17, 1.26, 1.44, 0.61, 0.51),
        restless=0.37,
        alone=0.76,
        burst=0.97,
        burst_cap=320,
        gap_s=2.5,
        gap_spread=1.6,
        no_limit=0.3,
    ),
    "helios": Profile(
        jobs_per_day=692,
        sizes={1: 0.7662, 2: 0.0269, 4: 0.0374, 8: 0.1208, 16: 0.0202, 24: 0.0044, 32: 0.0146, 48: 0.0021, 64: 0.0024}
        | {80: 0.0007, 120: 0.0014, 128: 0.0020, 160: 0.0009},
        run_s=(
            (1, 6, 67, 190, 1_181, 8_443, 57_430, 172_800, 2_592_000),
            (1, 6, 75, 211, 1_530, 78_119, 172_800, 172_800, 2_592_000),
            (1, 5, 59, 174, 2_081, 32_970, 149_236, 172_800, 2_592_000),
            (1, 8, 98, 216, 1_154, 25_978, 114_693, 172_800, 2_592_000),
            (1, 6, 105, 417, 12_166, 62_135, 172_719, 172_800, 2_592_000),
            (1, 5, 43, 182, 946, 29_914, 169_221, 172_800, 2_592_000),
        ),
        run_median_s=199.6,
        median_s=206,
        mean_s=6_652,
        stretch=0.8831,
        cap_s=30 * DAY_S,
        states={"failed": 0.155, "killed": 0.221},
        failed_early=0.7,
        failed_shift=0.3,
        killed_shift=0.45,
        vcs=(0.30, 0.22, 0.19, 0.15, 0.14),
        users=300,
        hours=(
            *(0.86, 0.72, 0.55, 0.42, 0.29, 0.22, 0.21, 0.26, 0.46, 0.82, 1.19, 1.31),
            *(1.31, 1.34, 1.50, 1.65, 1.71, 1.58, 1.44, 1.31, 1.34, 1.29, 1.18, 1.03),
        ),
        days=(1.03, 1.07, 1.28, 1.21, 0.95, 0.68, 0.77),
        restless=0.28,
        alone=0.66,
        burst=1.5,
        burst_cap=400,
        gap_s=0.9,
        gap_spread=1.75,
        no_limit=0.5,
    ),
    "pai": Profile(
        jobs_per_day=17_285,
        sizes={1: 0.7712, 2: 0.0309, 3: 0.0151, 4: 0.0142, 5: 0.0196, 8: 0.0129, 10: 0.0403, 12: 0.0080, 16: 0.0143}
        | {
            20: 0.0214,
            25: 0.0070,
            30: 0.0114,
            40: 0.0079,
            50: 0.0150,
            64: 0.0028,
            80: 0.0018,
            100: 0.0050,
            200: 0.0012,
        },
        run_s=(
            (15, 25, 94, 467, 3_186, 10_792, 29_811, 58_458, 626_371),
            (14, 39, 85, 280, 1_710, 9_315, 45_596, 98_554, 626_371),
            (16, 65, 354, 888, 3_415, 15_180, 48_236, 99_603, 626_371),
            (34, 66, 190, 1_370, 6_353, 19_384, 67_598, 146_904, 626_371),
            (32, 103, 331, 1_294, 4_521, 16_336, 34_807, 73_073, 626_371),
            (24, 103, 673, 2_547, 7_842, 20_534, 50_890, 83_556, 626_371),
        ),
        run_median_s=626.4,
        median_s=481,
        mean_s=4_787,
        stretch=0.9882,
        cap_s=626_371,
        states={"failed": 0.225},
        failed_early=0.8,
        failed_shift=0.5,
        killed_shift=0.0,
        vcs=(),
        users=1_242,
        hours=(
            *(0.63, 0.83, 0.92, 0.97, 1.21, 0.93, 0.84, 1.18, 1.29, 1.06, 1.00, 1.01),
            *(1.11, 1.04, 1.14, 1.14, 0.95, 0.93, 0.87, 0.69, 0.70, 1.49, 1.09, 0.99),
        ),
        days=(1.11, 1.03, 1.06, 1.12, 1.00, 0.83, 0.85),
        restless=0.15,
        alone=0.36,
        burst=1.75,
        burst_cap=32,
        gap_s=5.5,
        gap_spread=2.1,
        no_limit=0.6,
        gpu_types={"MISC": 696, "T4": 227, "": 218, "P100": 73, "V100": 29, "V100M32": 19},
        cpus_per_gpu=(4.0, 6.0, 6.0, 8.0, 10.0),
        mem_gib_per_gpu=(14.6, 29.3, 29.3, 29.3, 58.6),
    ),
}
