"""What the controller saw, decided, changed and why: append-only, bounded, and enough to decide the same again."""
