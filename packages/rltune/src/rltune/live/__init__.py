"""A running cluster: what it looks like now, what the core would do, and how far that may be applied."""
