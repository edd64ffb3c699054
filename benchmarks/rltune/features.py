"""How much the features matter: the same training with 7, 8 and 9 sampled features, raw ones (naive) and all of them.

python benchmarks/rltune/features.py                                 # a synthetic Philly: 20 minutes or so on one core
python benchmarks/rltune/features.py --trace philly_jobs.csv.gz --cluster philly-slice --seeds 3 --epochs 100
"""

import numpy as np
from lessons import judged, lesson, options, trained

FEATURES = ("sampled-7", "sampled", "sampled-9", "naive", "paper-17", "all")


def main():
    parser = options(__doc__)
    parser.add_argument("--features", nargs="+", default=FEATURES)
    parser.add_argument("--seeds", type=int, default=2)
    args = parser.parse_args()
    of = lesson(args)
    print(f"{of.name}; estimates: {of.estimator}; trained against {of.base}, no backfilling")
    models = {}
    for features in args.features:
        for seed in range(args.seeds):
            name = f"{features}, seed {seed}"
            models[name], told = trained(of, features, seed)
            print(f"- {name}: {told}", flush=True)
    test = judged(of, models).test
    base = test.index(of.base)
    print(f"\n{len(test.starts)} contended windows of {of.size:,} jobs, {test.disjoint} of them disjoint\n")
    print(f"| features | wait, ratio to {of.base}: mean of {args.seeds} seeds | each seed, with its interval |")
    print("| --- | --- | --- |")
    for features in args.features:
        ratios = [test.ratio(test.index(f"{features}, seed {seed}"), base) for seed in range(args.seeds)]
        each = "; ".join(f"{r.estimate:.3f} [{r.low:.3f}, {r.high:.3f}]" for r in ratios)
        print(f"| {features} | {np.mean([r.estimate for r in ratios]):.3f} | {each} |")


if __name__ == "__main__":
    main()
