"""Section 5.6 of the RLTune paper on a real Slurm: five nodes, Slurm alone, and driven by the controller."""
