"""The yardstick: a hand-tuned event loop in pure Python. FCFS, best fit over nodes, no backfilling, nothing else."""

from collections import deque
from heapq import heappop, heappush


def fcfs(submit, duration, gpus, node_gpus):
    """Return the start of every job; jobs are in order of submit, and a job larger than a node takes whole nodes."""
    free = list(node_gpus)
    size = max(free)
    nodes = range(len(free))
    start = [0.0] * len(submit)
    queue, ends = deque(), []
    arrived, n = 0, len(submit)
    while arrived < n or ends:
        now = submit[arrived] if arrived < n and (not ends or submit[arrived] < ends[0][0]) else ends[0][0]
        while ends and ends[0][0] == now:
            for node, used in heappop(ends)[2]:
                free[node] += used
        while arrived < n and submit[arrived] == now:
            queue.append(arrived)
            arrived += 1
        while queue:
            job = queue[0]
            need, taken = gpus[job], []
            while need > size:
                whole = next((i for i in nodes if free[i] == size), -1)
                if whole < 0:
                    break
                free[whole] = 0
                taken.append((whole, size))
                need -= size
            best, least = -1, size + 1
            if need <= size:
                for i in nodes:
                    if need <= free[i] < least:
                        best, least = i, free[i]
                        if least == need:
                            break
            if best < 0:
                for node, used in taken:
                    free[node] += used
                break
            free[best] -= need
            taken.append((best, need))
            queue.popleft()
            start[job] = now
            heappush(ends, (now + duration[job], job, taken))
    return start
