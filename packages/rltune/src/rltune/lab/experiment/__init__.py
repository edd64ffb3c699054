"""An experiment on a real Slurm: the same jobs under Slurm alone and under the controller, and what was predicted."""
