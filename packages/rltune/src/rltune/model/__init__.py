"""A learned policy as one value: its file, inputs, card, and what taught it."""
