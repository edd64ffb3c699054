"""Plans: which tensor is where at every moment of a step. Nothing here needs torch."""
