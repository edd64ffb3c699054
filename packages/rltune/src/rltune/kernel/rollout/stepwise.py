"""A window one choice at a time, for an environment that is asked from Python. The choices are those of rollout.py."""

from __future__ import annotations

from rltune.kernel.backfill.candidates import begin_look, best_candidate, is_candidate, take
from rltune.kernel.jit import kernel
from rltune.kernel.rollout.event_loop import advance
from rltune.kernel.score.features import feature
from rltune.kernel.score.network import fill_inputs
from rltune.kernel.score.rules import queue_end_in_view
from rltune.kernel.state.arrays import F8, I8, PASSES, Q_HEAD, Options, State, World


@kernel
def _look_anew(w: World, s: State, o: Options) -> None:
    for row in range(s.n[Q_HEAD], begin_look(w, s, o)):
        s.queue[row].score = 0.0


@kernel
def to_next_choice(w: World, s: State, o: Options, started: bool) -> int:
    """Go on until several jobs may be next; give how many, 0 at the end. `started`: the job taken last did."""
    anew = started
    while True:
        if anew:
            _look_anew(w, s, o)
        row, n = best_candidate(s, o, queue_end_in_view(s, o.in_view))
        if n > 1:
            return n
        if n == 1:
            anew = take(w, s, o, row)
        elif advance(w, s, o):
            s.n[PASSES] += 1
            anew = True
        else:
            return 0


@kernel
def observe(w: World, s: State, o: Options, critic_of: I8, x: F8, critic: F8, mask: I8) -> None:
    """Enter the jobs in view, oldest first: the actor's inputs, the critic's features, and who may be next."""
    for row in range(s.n[Q_HEAD], queue_end_in_view(s, o.in_view)):
        i = row - s.n[Q_HEAD]
        fill_inputs(w, s, row, x[i])
        for k in range(len(critic_of)):
            critic[i, k] = feature(w, s, row, critic_of[k])
        mask[i] = is_candidate(s, o, row)
