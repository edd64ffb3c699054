"""Faults on a real Slurm with a controller that acts on it, and the one thing that must be so after each of them."""
