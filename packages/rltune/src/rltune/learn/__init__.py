"""The learned policy: its features, its file, its training."""
