"""Whether a network that sees the whole queue at once beats one that scores each job by itself.

python benchmarks/rltune/attention.py                                # a synthetic Philly: 40 minutes or so on one core
python benchmarks/rltune/attention.py --trace philly_jobs.csv.gz --cluster philly-slice --every 256

In the first network every candidate attends to all others (scaled dot product, several heads): without backfilling, on
a cluster without partitions, the candidates are all jobs that wait. The second is its control: it has as many weights,
but the layers that compare jobs in the first stand one after the other and see one job. Both are trained by the
trainer's own PPO on the same windows, and tested as `rltune evaluate` tests. Ctrl-C ends a training early; what it has
found so far is tested.
"""

from time import perf_counter

import numpy as np
import torch
from lessons import judged, lesson, options
from playing import eyes_of, play
from torch import nn

from rltune.engine.pipeline import Pipeline
from rltune.estimate import get_estimator
from rltune.learn.train import Trainer
from rltune.learn.train_settings import TrainSettings
from rltune.learn.training_windows import TrainingWindow
from rltune.learn.window_worker import Held, Judged, Rolled
from rltune.model.feature_sets import get_recipe
from rltune.trials.intervals import over_time, ratio
from rltune.trials.measures import MEASURED
from rltune.trials.warm_start import Knowledge

TOGETHER = 8  # queues of similar length that are padded to the longest of them and scored at once


class QueueActor(nn.Module):
    """A logit for every candidate, from its inputs and those of all the others of its choice."""

    def __init__(self, inputs: int, width: int, heads: int, *, alone: bool) -> None:
        super().__init__()
        self.heads, self.alone = heads, alone
        self.embed = nn.Linear(inputs, width)
        self.asks, self.keys, self.values, self.mix = (nn.Linear(width, width) for _ in range(4))
        self.judge, self.last = nn.Linear(width, width // 2), nn.Linear(width // 2, 1)
        nn.init.normal_(self.last.weight, std=0.01)
        nn.init.zeros_(self.last.bias)

    def forward(self, rows, first):
        """Return a logit a row; the candidates of choice i are rows first[i] to first[i + 1]."""
        if self.alone:
            return self._logits(rows, None)
        order = np.argsort(np.diff(first), kind="stable")
        parts = np.array_split(order, -(-len(order) // TOGETHER))
        where, logits = zip(*(self._of_queues(rows, first, part) for part in parts), strict=True)
        return torch.cat(logits)[torch.from_numpy(np.argsort(np.concatenate(where)))]

    def _of_queues(self, rows, first, which):
        """Score some queues, padded to the longest; give which rows they are and the logits of these."""
        count = (first[which + 1] - first[which])[:, None]
        place = np.arange(count.max())[None, :]
        there = place < count
        where = np.where(there, first[which][:, None] + place, 0)
        logits = self._logits(rows[torch.from_numpy(where)], torch.from_numpy(there))
        return where[there], logits[torch.from_numpy(there)]

    def _logits(self, queues, there):
        jobs = torch.relu(self.embed(queues))
        jobs = jobs + self.mix(self._attended(jobs, there))
        return self.last(torch.relu(self.judge(torch.relu(jobs)))).squeeze(-1)

    def _attended(self, jobs, there):
        """Return what each job takes from those that are there; for the control, from itself alone."""
        if self.alone:
            return self.values(torch.relu(self.keys(torch.relu(self.asks(jobs)))))
        asks, keys, values = (self._by_head(layer(jobs)) for layer in (self.asks, self.keys, self.values))
        taken = nn.functional.scaled_dot_product_attention(asks, keys, values, there[:, None, None, :])
        return taken.transpose(1, 2).flatten(2)

    def _by_head(self, jobs):
        return jobs.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def to_flat(self):
        return nn.utils.parameters_to_vector(self.parameters()).detach().numpy().astype(np.float64)

    def from_flat(self, weights):
        nn.utils.vector_to_parameters(torch.from_numpy(weights.astype(np.float32)), self.parameters())


class QueueTrainer(Trainer):
    """The trainer with a network that the core does not know: windows are played from Python."""

    def __init__(self, of, settings, width, heads, *, alone):
        self._shape = {"width": width, "heads": heads, "alone": alone}
        super().__init__(of.jobs, of.cluster, settings)

    @property
    def eyes(self):
        return eyes_of(get_recipe(self.settings.features), self.scaling.norm, self.settings.base)

    def _new_actor(self, inputs):
        return QueueActor(inputs, **self._shape)

    def _roll(self):
        s, epoch = self.settings, self.progress.epoch
        windows = self._batch(epoch % max(1, s.pool // s.windows))
        games = play(windows, self.actor, self.eyes, np.random.default_rng([s.seed, epoch]))
        gaps = [s.objective.gap(game.times, game.window.under_base) for game in games]
        return [Rolled(game.trajectory(s.objective), gap, 0.0) for game, gap in zip(games, gaps, strict=True)]

    def _judge(self):
        at, costs = self.progress, self.settings.objective.costs
        games = play(self.held, self.actor, self.eyes)
        each = [Judged(costs(game.times), costs(game.window.under_base), 0.0, np.inf) for game in games]
        found = Held.of(each, self.settings.objective)
        if found.beats(at.best):
            at.best, at.best_epoch, at.best_weights = found, at.epoch, self.actor.to_flat()
        return {"held_out": found.score}


def trained(of, args, seed, *, alone):
    """Train one of the two networks, and leave the trainer with the best it found."""
    settings = TrainSettings(
        base=of.base,
        estimators=(of.estimator,),
        features=args.features,
        epochs=of.epochs,
        windows=of.windows,
        size=args.train_size,
        pool=of.epochs * of.windows,
        held_windows=args.held_windows,
        held_size=of.size,
        held_every=args.held_every,
        contended_s=of.contended_s,
        seed=seed,
    )
    began = perf_counter()
    trainer = QueueTrainer(of, settings, args.width, args.heads, alone=alone)
    try:
        for progress in trainer.epochs():
            held = progress.log[-1].get("held_out")
            if held is not None:
                print(f"  epoch {progress.epoch}: {held:.3f} of {of.base}, {perf_counter() - began:.0f} s", flush=True)
    except KeyboardInterrupt:
        print("  ended early", flush=True)
    trainer.actor.from_flat(trainer.progress.best_weights)
    return trainer


def mean_waits(of, trainer, starts):
    """Run the test windows under a trained network, estimates warm, as `rltune evaluate` has them."""
    jobs, known, guess = of.jobs.sorted(), Knowledge(of.jobs.sorted(), 0), get_estimator(of.estimator)
    windows = [
        TrainingWindow(
            first, jobs.window(first, of.size), of.cluster, known.estimator(guess, first, of.size), Pipeline()
        )
        for first in starts
    ]
    times = [game.times for game in play(windows, trainer.actor, trainer.eyes)]
    return np.array([(t.start_s - t.submit_s).mean() for t in times])


def main():
    parser = options(__doc__)
    parser.add_argument("--features", default="wide")
    parser.add_argument("--train-size", type=int, default=256, help="jobs in a window to train on")
    parser.add_argument("--held-windows", type=int, default=16, help="that the best network is chosen on")
    parser.add_argument("--held-every", type=int, default=2, help="epochs between two looks at them")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--heads", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=1)
    args = parser.parse_args()
    of = lesson(args)
    torch.set_num_threads(1)
    print(f"{of.name}; estimates: {of.estimator}; features: {args.features}; trained against {of.base}")
    found = {}
    for seed in range(args.seeds):
        for name, alone in (("attention", False), ("each job alone", True)):
            print(f"- {name}, seed {seed}, width {args.width}, {args.heads} heads", flush=True)
            found[f"{name}, seed {seed}"] = trained(of, args, seed, alone=alone)
    test = judged(of, {}).test
    theirs = test.values[test.index(of.base), :, MEASURED.index("wait")]
    print(f"\n{len(test.starts)} contended windows of {of.size:,} jobs, {test.disjoint} of them disjoint\n")
    print(f"| network | validation, of {of.base} | best epoch | wait, ratio to {of.base} |")
    print("| --- | --- | --- | --- |")
    for name, trainer in found.items():
        at = trainer.progress
        r = over_time(mean_waits(of, trainer, test.starts), theirs, test.course, ratio, **test.how)
        interval = f"{r.estimate:.3f} [{r.low:.3f}, {r.high:.3f}]"
        print(f"| {name} | {at.best.score:.3f} | {at.best_epoch} of {at.epoch} | {interval} |", flush=True)


if __name__ == "__main__":
    main()
