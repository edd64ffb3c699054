"""From jobs and a cluster to the arrays of a run."""
