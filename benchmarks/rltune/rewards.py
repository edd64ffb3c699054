"""How PPO is paid: dense, at the end, or by pairs of runs; several seeds of each from random weights (`imitate` 0).

    python benchmarks/rltune/rewards.py --trace philly_jobs.csv.gz --cluster philly-slice --every 256 \
      --hidden 8x6 --begin 3 --jobs-a-window 512 --windows 30 --epochs 16 --changes 16 --rate 0.001 --seeds 5 --out DIR

With `--begin` a training begins with so many epochs of 40 short windows at the usual rate: a random order makes long
queues, which take long to run. Models are kept in the folder, so that it can be broken off and begun again. The mean of
the seeds has two intervals: over windows, of the mean wait over all seeds window by window, which says how other jobs
could have turned out; and over seeds, which says how another training could have, on these jobs.
"""

from pathlib import Path

import numpy as np
from lessons import judged, lesson, options, trained

from rltune.learn.ppo import PpoSettings
from rltune.learn.train_settings import REWARDS, TrainSettings
from rltune.model.model_file import read_model, save_model
from rltune.trials.intervals import over_time, ratio, student

SHORT = 40  # windows of an epoch at the beginning


def main():
    parser = options(__doc__)
    parser.add_argument("--rewards", nargs="+", default=REWARDS)
    parser.add_argument("--features", default="wide")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--changes", type=int, default=32, help="of a window, with paired")
    parser.add_argument("--rate", type=float, default=PpoSettings().actor_rate, help="learning rate of the actor")
    parser.add_argument("--hidden", default="x".join(map(str, TrainSettings().hidden)), help="layers of the actor")
    parser.add_argument("--jobs-a-window", type=int, default=TrainSettings().size, help="of the windows that teach")
    parser.add_argument("--begin", type=int, default=0, help="epochs of short windows before all others")
    parser.add_argument("--out", type=Path, required=True, help="where models are kept")
    parser.add_argument("--train-only", action="store_true", help="do not look at the held-out windows yet")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    of = lesson(args)
    print(f"{of.name}; estimates: {of.estimator}; against {of.base}, no backfilling; {args.features}", flush=True)
    models = {}
    for reward in args.rewards:
        for seed in range(args.seeds):
            name, file = f"{reward}, seed {seed}", args.out / f"{reward}-{seed}.rltune"
            if not file.exists():
                model, told = from_random(args, of, reward, seed)
                save_model(model, file)
                print(f"- {name}: {told}", flush=True)
            models[name] = read_model(file)
    if not args.train_only:
        show(args, of, models)


def from_random(args, of, reward, seed):
    """Train a network from random weights: on short windows first if that is asked, then on those that count."""
    how = {"imitate": 0, "changes": args.changes, "reward": reward, "hidden": tuple(map(int, args.hidden.split("x")))}
    init, usual = None, TrainSettings()
    if args.begin:
        short = {"epochs": args.begin, "windows": SHORT, "pool": args.begin * SHORT, "size": usual.size}
        init, _ = trained(of, args.features, seed, held_windows=8, held_every=args.begin, **short, **how)
    how |= {"size": args.jobs_a_window, "ppo": PpoSettings(actor_rate=args.rate)}
    return trained(of, args.features, seed, init, **how)


def show(args, of, models):
    """Print the table of the held-out windows."""
    test = judged(of, models).test
    base = test.index(of.base)
    waits = test.values[:, :, 0]
    print(f"\n{len(test.starts)} contended windows of {of.size:,} jobs, {test.disjoint} of them disjoint\n")
    print(f"| reward | wait, ratio to {of.base}: mean of {args.seeds} seeds, over windows | over seeds | each seed |")
    print("| --- | --- | --- | --- |")
    for reward in args.rewards:
        rows = [test.index(f"{reward}, seed {seed}") for seed in range(args.seeds)]
        ratios = [test.ratio(i, base) for i in rows]
        each = "; ".join(f"{r.estimate:.3f} [{r.low:.3f}, {r.high:.3f}]" for r in ratios)
        mean = over_time(np.mean(waits[rows], axis=0), waits[base], test.course, ratio, **test.how)
        told = f"{mean.estimate:.3f} [{mean.low:.3f}, {mean.high:.3f}]"
        print(f"| {reward} | {told} | {over_seeds(np.array([r.estimate for r in ratios]))} | {each} |")


def over_seeds(ratios: np.ndarray) -> str:
    """Return the mean ratio with Student's 95 % interval, the trainings taken as independent draws."""
    if len(ratios) < 2:
        return f"{ratios.mean():.3f} [unknown]"
    half = student(0.975, len(ratios) - 1) * ratios.std(ddof=1) / np.sqrt(len(ratios))
    return f"{ratios.mean():.3f} [{ratios.mean() - half:.3f}, {ratios.mean() + half:.3f}]"


if __name__ == "__main__":
    main()
