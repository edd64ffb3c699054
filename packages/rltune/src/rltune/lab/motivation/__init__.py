"""Section 2 of the RLTune paper on a real Slurm: whole nodes against packing, and a few priorities changed in each."""
