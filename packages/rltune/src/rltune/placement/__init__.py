"""Where a job runs: ways to place it, greedy placers, and the look-ahead solver."""
