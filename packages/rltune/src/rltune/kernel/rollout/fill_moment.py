"""A moment in the middle of things: jobs that run where they run, and jobs that wait."""

from __future__ import annotations

from rltune.kernel.fit.node_index import index_remove
from rltune.kernel.fit.running import start_job
from rltune.kernel.jit import kernel
from rltune.kernel.rollout.event_loop import arrive, release_held
from rltune.kernel.state.arrays import F8, I8, Q_HEAD, Q_TAIL, Options, State, World
from rltune.kernel.state.limits import count_submitted
from rltune.kernel.state.queue import enqueue, settle_queue
from rltune.kernel.state.spells import carry_over


@kernel
def let_run(w: World, s: State, o: Options, rows: I8, start: F8, served: F8, first: I8, nodes: I8) -> None:
    """Let jobs run since they started, in order of their starts; job i is on nodes[first[i]:first[i + 1]]."""
    for i in range(len(rows)):
        job = rows[i]
        s.now[0] = start[i]
        if w.takes_turns:
            carry_over(w, s, o, job, served[i])
        enqueue(w, s, job, True)
        if w.has_limits:
            count_submitted(w, s, job, 1)
        for k in range(first[i], first[i + 1]):
            s.pick[k - first[i]] = nodes[k]
        start_job(w, s, job)
        s.n[Q_HEAD] = s.n[Q_TAIL] = 0


@kernel
def take_down(w: World, s: State, nodes: I8) -> None:
    """Take nodes away that are not up; what runs there goes on."""
    for i in range(len(nodes)):
        index_remove(w, s, nodes[i])
        s.node[nodes[i]].up = 0


@kernel
def let_wait(w: World, s: State, o: Options, now: float, rows: I8, served: F8) -> None:
    """Let jobs wait as of now, in order of age."""
    s.now[0] = now
    for i in range(len(rows)):
        arrive(w, s, o, rows[i])
        if w.takes_turns:
            carry_over(w, s, o, rows[i], served[i])
    if w.has_limits:
        release_held(w, s, o)
    settle_queue(s)
