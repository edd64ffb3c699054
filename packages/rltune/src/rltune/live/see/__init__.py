"""What a running cluster looks like, and how far that can be trusted."""
