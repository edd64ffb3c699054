"""Slurm: its commands, its words, its history, and a real one to try them on."""
