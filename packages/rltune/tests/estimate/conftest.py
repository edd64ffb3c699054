from queueing_trace import cluster, trace

__all__ = ["cluster", "trace"]
