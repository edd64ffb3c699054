"""RLTune's Table 9: the learned policy beside RLScheduler and SchedInspector, trained alike, on held-out windows.

python benchmarks/rltune/table9.py                                   # a synthetic Philly: 10 minutes or so on one core
python benchmarks/rltune/table9.py --trace helios
python benchmarks/rltune/table9.py --trace philly_jobs.csv.gz --cluster philly-slice --epochs 100 --windows 100
"""

from time import perf_counter

from lessons import judged, lesson, options, trained

from rltune import simulate

WHO = {"rlscheduler": "rlscheduler", "schedinspector": "schedinspector", "rltune": "sampled"}


def timed(of, policy):
    """Seconds to schedule ten windows of 256 jobs, compiled code warm."""
    every = max(1, (len(of.jobs) - 256) // 10)
    simulate(of.jobs.window(0, 256), of.cluster, policy, estimator=of.estimator)
    began = perf_counter()
    for first in range(0, 10 * every, every):
        simulate(of.jobs.window(first, 256), of.cluster, policy, estimator=of.estimator)
    return perf_counter() - began


def main():
    parser = options(__doc__)
    parser.add_argument("--features", default="sampled", help="of the learned policy")
    parser.add_argument("--also", nargs="*", default=(), help="more policies or models to compare with")
    args = parser.parse_args()
    of = lesson(args)
    print(f"{of.name}; estimates: {of.estimator}; trained against {of.base}, no backfilling")
    models = {}
    for name, features in {**WHO, "rltune": args.features}.items():
        models[name], told = trained(of, features)
        print(f"- {name}: {told}", flush=True)
    test = judged(of, models, args.also).test
    print(f"\n{len(test.starts)} contended windows of {of.size:,} jobs, {test.disjoint} of them disjoint\n")
    print(f"| policy | slowdown | wait, s | JCT, s | utilisation | wait, ratio to {of.base} | 10 x 256 jobs, s |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    base = test.index(of.base)
    for i, pipeline in enumerate(test.pipelines):
        slow, wait, jct, use = (test.mean(i, name) for name in ("slowdown", "wait", "jct", "utilisation"))
        ratio = test.ratio(i, base)
        seconds = timed(of, pipeline.policy)
        interval = f"{ratio.estimate:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"
        print(
            f"| {pipeline.label} | {slow:,.1f} | {wait:,.0f} | {jct:,.0f} | {use:.1%} | {interval} | {seconds:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
