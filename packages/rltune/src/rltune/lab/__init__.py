"""Real Slurms on one machine, and experiments on them."""
