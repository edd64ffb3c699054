"""Is what `rltune tune` recommends borne out on jobs that it has never seen, and how far from the best in hindsight?

Each piece of a history is cut: the first 80 % of its jobs are given to `tune`, the last 20 % are kept. On those all
pipelines that reached the last round are run, so that the best in hindsight is known. `--offset` takes other pieces
than the first, several with commas. In the end it says for each answer how often later jobs bore it out. Two cores,
about half an hour for all.
"""

import argparse
import json
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import numpy as np

from rltune.metrics.formats import seconds
from rltune.parallel import spread_over
from rltune.reproduce.workloads import find_origins, load_workload
from rltune.tune import tune
from rltune.tune.stretches import HistoryStretch, StretchRunner

KEPT_BACK = 0.2
NEAR_ONE = (0.99, 1.01)  # of now: between, nothing has changed
TRACES = ("philly-steady", "helios-steady", "pai-steady", "ctc-sp2", "hpc2n")


@dataclass(frozen=True)
class Piece:
    """What one piece of a history gave: the answer, and what came of it on the jobs after it."""

    history: str
    first: int
    answer: str
    chosen: str
    intervals: dict[str, list[float]]  # chosen / now, on the middle part, the last and both
    now_s: list[float]  # wait of what there is now: on the last part, later
    recommended_of_now: float
    chosen_of_now: float
    recommended_of_best: float
    best: str

    @property
    def cells(self):
        """Return the row of the table."""
        ratios = [f"{x:.3f}" for x in (self.recommended_of_now, self.chosen_of_now, self.recommended_of_best)]
        tested = "{:.3f} [{:.3f}, {:.3f}]".format(*self.intervals["testing"])
        told = [self.history, f"{self.first:,}", self.answer, self.chosen, tested, seconds(self.now_s[1])]
        return [*told, *ratios, self.best]


def piece(name, first, jobs, cluster, given, spread):
    """Tune on the first part, then look at the rest."""
    cut = int((1 - KEPT_BACK) * len(jobs))
    how = {"minutes": given.minutes, "learn": given.learn.split(",") if given.learn else ()}
    made = tune(jobs.window(0, cut), cluster, spread=spread, threads=given.workers, **how)
    runner, later = StretchRunner(jobs, cluster, "wait", 0), HistoryStretch(cut, len(jobs))
    tried = [candidate for candidate, _ in made.finalists]
    means = [o.mean for o in spread.map(runner, [(candidate, later) for candidate in tried])]
    by_label = dict(zip((c.label for c in tried), means, strict=True))
    best = min(by_label, key=by_label.get)
    now = by_label[made.now.label]
    found = {name: getattr(made, name) for name in ("choosing", "testing", "together")}
    return Piece(
        history=name,
        first=first,
        answer=made.answer.value,
        chosen=made.chosen.label,
        intervals={name: [i.estimate, i.low, i.high] for name, i in found.items()},
        now_s=[made.values[0], now],
        recommended_of_now=_over(by_label[made.recommended.label], now),
        chosen_of_now=_over(by_label[made.chosen.label], now),
        recommended_of_best=_over(by_label[made.recommended.label], by_label[best]),
        best=best,
    )


def _over(ours, theirs):
    """Divide two waits; a second on both keeps those of nobody finite."""
    return (ours + 1) / (theirs + 1)


def borne_out(pieces):
    """Return rows that say for every answer what became of the choice on later jobs."""
    for answer in dict.fromkeys(piece.answer for piece in pieces):
        ratios = np.array([piece.chosen_of_now for piece in pieces if piece.answer == answer])
        better, worse = int((ratios < NEAR_ONE[0]).sum()), int((ratios > NEAR_ONE[1]).sum())
        spread = f"{np.exp(np.log(ratios).mean()):.3f}, {ratios.min():.3f} to {ratios.max():.3f}"
        yield [answer, str(len(ratios)), str(better), str(len(ratios) - better - worse), str(worse), spread]


def table(columns):
    """Return the two lines that head a table."""
    return f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, required=True, help="the folder of the public traces")
    parser.add_argument("--only", default=",".join(TRACES))
    parser.add_argument("--jobs", type=int, default=40_000, help="of each history")
    parser.add_argument("--offset", default="0", help="the first of them, several with commas; below 0 from the end")
    parser.add_argument("--json", type=Path, help="a file to which each piece is added as a line")
    parser.add_argument("--learn", default="", help="ways to learn, with commas: evolve, train")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    columns = ["history", "from job", "answer", "chosen on the middle part", "of now on the last part", "now, later"]
    columns += ["recommended of now, later", "chosen of now, later", "recommended of best, later"]
    columns += ["best in hindsight, later"]
    print(table(columns), flush=True)
    found, pieces = find_origins(given.traces, given.jobs), []
    with spread_over(given.workers) as spread:
        for name, offset in product(given.only.split(","), map(int, given.offset.split(","))):
            work = load_workload(found[name])
            first = offset if offset >= 0 else max(0, len(work.jobs) + offset)
            if first + given.jobs > len(work.jobs) and offset >= 0:
                continue  # no whole piece is left there
            jobs = work.jobs.take(np.arange(first, min(first + given.jobs, len(work.jobs))))
            pieces.append(piece(name, first, jobs, work.cluster, given, spread))
            print(f"| {' | '.join(pieces[-1].cells)} |", flush=True)
            if given.json:
                with given.json.open("a") as kept:
                    kept.write(json.dumps(asdict(pieces[-1])) + "\n")
    print(f"\n{table(['answer', 'pieces', 'choice better later', 'as before', 'worse', 'of now later'])}")
    for cells in borne_out(pieces):
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
