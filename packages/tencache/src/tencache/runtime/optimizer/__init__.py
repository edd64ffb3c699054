"""The optimizer's step, and where its state is kept."""
