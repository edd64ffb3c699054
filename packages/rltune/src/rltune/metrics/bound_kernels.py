"""Compiled loops of the lower bound; plain Python over arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rltune.kernel.jit import allocating_kernel as kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rltune.jobs import Floats

    Rows = NDArray[np.int64]


@kernel
def push(heap: Rows, size: int, key: Floats, job: int) -> None:
    """Add a job to a binary heap ordered by (key, job)."""
    at = size
    while at > 0:
        up = (at - 1) // 2
        other = heap[up]
        if key[other] < key[job] or (key[other] == key[job] and other < job):
            break
        heap[at] = other
        at = up
    heap[at] = job


@kernel
def pop(heap: Rows, size: int, key: Floats) -> int:
    """Take the least job off a heap of `size`."""
    least, job, at = heap[0], heap[size - 1], 0
    while True:
        down = 2 * at + 1
        if down >= size - 1:
            break
        a, b = heap[down], heap[min(down + 1, size - 2)]
        if key[b] < key[a] or (key[b] == key[a] and b < a):
            down, a = down + 1, b
        if key[job] < key[a] or (key[job] == key[a] and job < a):
            break
        heap[at] = a
        at = down
    heap[at] = job
    return int(least)


@kernel
def fluid(release: Floats, work: Floats, capacity: float, shrink: bool) -> tuple[Floats, Rows, Floats, Floats]:
    """Run jobs, ordered by release, on one machine that does `capacity` of work a second and may switch at any time.

    The least key goes first: what is left of the work (shrink, SRPT) or the whole of it. Gives the jobs' completions
    and the pieces (job, begin, end) in which they were worked on.
    """
    n = len(release)
    left, key, heap = work.copy(), work.copy(), np.empty(n, np.int64)
    completion = np.empty(n)
    piece_job, begin, end = np.empty(2 * n, np.int64), np.empty(2 * n), np.empty(2 * n)
    size = pieces = arrived = 0
    now = 0.0
    while arrived < n or size > 0:
        if size == 0:
            now = max(now, release[arrived])
        while arrived < n and release[arrived] <= now:
            push(heap, size, key, arrived)
            size += 1
            arrived += 1
        job = pop(heap, size, key)
        size -= 1
        done = now + left[job] / capacity
        until = done
        if arrived < n and release[arrived] < done:
            until = release[arrived]
            left[job] = max(0.0, left[job] - (until - now) * capacity)
            if shrink:
                key[job] = left[job]
            push(heap, size, key, job)
            size += 1
        else:
            completion[job] = done
        piece_job[pieces], begin[pieces], end[pieces] = job, now, until
        pieces += 1
        now = until
    return completion, piece_job[:pieces], begin[:pieces], end[:pieces]


@kernel
def prices(work: Floats, job: Rows, begin: Floats, end: Floats) -> tuple[Floats, Floats]:
    """Return the price of a unit of work at the begin and end of each piece, from the last piece back.

    A job with `work` w pays t/w + price(t) a unit; the prices make it indifferent between its own pieces, and are 0
    when the machine falls idle (the dual of the least sum of mean busy times).
    """
    level = np.full(len(work), -1.0)
    high, low = np.empty(len(job)), np.empty(len(job))
    ahead, since = 0.0, np.inf
    for i in range(len(job) - 1, -1, -1):
        w = work[job[i]]
        if level[job[i]] < 0.0:
            level[job[i]] = (ahead if end[i] == since else 0.0) + end[i] / w
        low[i] = max(0.0, level[job[i]] - end[i] / w)
        high[i] = max(0.0, level[job[i]] - begin[i] / w)
        ahead, since = high[i], begin[i]
    return high, low


@kernel
def cheapest(
    release: Floats,
    run: Floats,
    gpus: Floats,
    edges: Floats,
    price: Floats,
    paid: Floats,
    release_bin: Rows,
    end_bin: Rows,
    used: Floats,
) -> tuple[float, int]:
    """Let each job choose the start s >= release of least (s - release) + gpus x (price of its run), and add these up.

    The price is constant between edges and 0 after the last; `paid` is its integral at the edges. The cost is linear
    between the moments at which begin or end of the run crosses an edge, so only these are tried.
    `used` becomes the GPU-seconds that the chosen runs take in each bin. Gives the sum and how many starts were tried.
    """
    last = len(edges) - 1
    used[:] = 0.0
    total, tried = 0.0, 0
    for j in range(len(release)):
        a, b, start, stop = release_bin[j], end_bin[j], release[j], release[j] + run[j]
        best, best_start, best_bin = np.inf, start, a
        while True:
            at_start = paid[a] + price[a] * (start - edges[a])
            at_stop = paid[b] + price[b] * (stop - edges[b])
            tried += 1
            low = (start - release[j]) + gpus[j] * (at_stop - at_start)
            if low < best:
                best, best_start, best_bin = low, start, a
            if a == last:
                break
            step_a = edges[a + 1] - start
            step_b = edges[b + 1] - stop if b < last else np.inf
            if step_a <= step_b:
                a += 1
                start, stop = edges[a], edges[a] + run[j]
                if step_a == step_b:
                    b += 1
            else:
                b += 1
                start, stop = edges[b] - run[j], edges[b]
            if start - release[j] >= best:
                break
        total += best
        stop = best_start + run[j]
        for k in range(best_bin, last):
            if edges[k] >= stop:
                break
            used[k] += gpus[j] * (min(stop, edges[k + 1]) - max(best_start, edges[k]))
    return total, tried
