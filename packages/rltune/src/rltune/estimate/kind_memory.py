"""What is known of each kind of jobs at a moment: who has ended, who runs and since when, who was submitted.

Events come in as they happen, and a question is answered from what came before it. So nothing that is told to a job
depends on what happens later, in training and in a run alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rltune.estimate.kinds import Codes, Kinds
from rltune.jobs import Floats
from rltune.kernel.jit import kernel

# Events. At one moment ends come first, then each job is asked about and submitted, then jobs start.
END, ASK, SUBMIT, START = range(4)

# What is kept of a kind.
ENDED, SUM_LOG, FAST, LAST, LAST_BUT_ONE, END_AT, RUNNING, SUM_START, SUBMIT_AT, SUBMITTED, SUM_S = range(11)
KEPT = 11

# What is told of a kind; logarithms of seconds, NaN where there is nothing to tell.
TOLD = (
    "number ended",
    "mean of the ended",
    "mean of the latest",
    "mean of the last two",
    "the last",
    "time since one ended",
    "time since the last was submitted",
    "number running",
    "how long those have run",
    "number waiting",
    "mean seconds of the ended",
)
ENDED_N = 0  # of these
SINCE_SUBMIT, RUNNING_N, RUN_FOR, WAITING_N, MEAN_S = range(6, 11)
FADING = 0.3  # weight of the newest in the mean of the latest


@kernel
def _tell(kept: Floats, time: float, told: Floats) -> None:
    """Write what is known of a kind at a moment."""
    ended = kept[ENDED]
    told[0] = math.log1p(ended)
    if ended > 0.0:
        told[1] = kept[SUM_LOG] / ended
        told[2] = kept[FAST]
        told[4] = kept[LAST]
        told[3] = kept[LAST]
        if ended > 1.0:
            told[3] = math.log(0.5 * (math.exp(kept[LAST]) + math.exp(kept[LAST_BUT_ONE])))
        told[5] = math.log1p(max(time - kept[END_AT], 0.0))
        told[MEAN_S] = math.log(kept[SUM_S] / ended)
    if kept[SUBMITTED] > 0.0:
        told[6] = math.log1p(max(time - kept[SUBMIT_AT], 0.0))
    told[7] = kept[RUNNING]
    if kept[RUNNING] > 0.5:
        told[8] = math.log1p(max(time - kept[SUM_START] / kept[RUNNING], 0.0))
    told[9] = kept[SUBMITTED] - kept[RUNNING] - ended


@kernel
def _note(kept: Floats, event: int, time: float, log_run: float, start: float) -> None:
    """Let something happen to a job of a kind."""
    if event == END:
        kept[FAST] = log_run if kept[ENDED] == 0.0 else kept[FAST] + FADING * (log_run - kept[FAST])
        kept[ENDED] += 1.0
        kept[SUM_LOG] += log_run
        kept[SUM_S] += math.exp(log_run)
        kept[LAST_BUT_ONE] = kept[LAST]
        kept[LAST] = log_run
        kept[END_AT] = time
        kept[RUNNING] -= 1.0
        kept[SUM_START] -= start
    elif event == SUBMIT:
        kept[SUBMIT_AT] = time
        kept[SUBMITTED] += 1.0
    else:
        kept[RUNNING] += 1.0
        kept[SUM_START] += time


@kernel
def walk(
    of: Codes, event: Codes, row: Codes, time: Floats, log_run: Floats, start: Floats, kept: Floats, told: Floats
) -> None:
    """Go through events in order; the answers to questions are written into the rows of `told`, one after another."""
    asked = 0
    for i in range(len(event)):
        for level in range(of.shape[1]):
            kind = of[row[i], level]
            if kind < 0:
                continue
            if event[i] == ASK:
                _tell(kept[kind], time[i], told[asked, level])
            else:
                _note(kept[kind], event[i], time[i], log_run[row[i]], start[row[i]])
        if event[i] == ASK:
            asked += 1


@dataclass(frozen=True)
class Happenings:
    """Events in order of time: what happened to which row, and when."""

    event: Codes
    row: Codes
    time_s: Floats

    @classmethod
    def of(cls, *parts: tuple[int, NDArray[np.integer], Floats]) -> Happenings:
        """Put events in order; at one moment ends, then questions and submissions job by job, then starts."""
        event = np.concatenate([np.full(len(rows), kind) for kind, rows, _ in parts]).astype(np.int64)
        row = np.concatenate([rows for _, rows, _ in parts]).astype(np.int64)
        time_s = np.concatenate([times for _, _, times in parts]).astype(np.float64)
        turn = np.where(event == END, 0, np.where(event == START, 2, 1))
        within = np.where(turn == 1, row, 0)
        order = np.lexsort((event, within, turn, time_s))
        return cls(event[order], row[order], time_s[order])

    def until(self, time_s: float) -> Happenings:
        """Keep what happened by then."""
        upto = int(np.searchsorted(self.time_s, time_s, side="right"))
        return Happenings(self.event[:upto], self.row[:upto], self.time_s[:upto])


class KindMemory:
    """What is kept of every kind, as events come in."""

    def __init__(self, kinds: Kinds, kept: Floats | None = None) -> None:
        self._kinds = kinds
        self._kept = np.zeros((kinds.count, KEPT)) if kept is None else kept

    def copy(self) -> KindMemory:
        """Return another that goes on from here by itself."""
        return KindMemory(self._kinds, self._kept.copy())

    def note(self, happened: Happenings, log_run: Floats, start_s: Floats) -> Floats:
        """Take events in; return what was told to each question, in order: [question, level x TOLD]."""
        levels = self._kinds.of.shape[1]
        told = np.full((int((happened.event == ASK).sum()), levels, len(TOLD)), np.nan)
        walk(self._kinds.of, happened.event, happened.row, happened.time_s, log_run, start_s, self._kept, told)
        return told.reshape(len(told), levels * len(TOLD))

    def forget_running(self) -> None:
        """Let nobody run or wait: a run begins with an idle cluster, whatever is recorded."""
        self._kept[:, RUNNING] = self._kept[:, SUM_START] = 0.0
        self._kept[:, SUBMITTED] = self._kept[:, ENDED]
