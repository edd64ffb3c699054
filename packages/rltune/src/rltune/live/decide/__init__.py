"""From a snapshot to a decision. Nothing in here does I/O."""
