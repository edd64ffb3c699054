"""Follows a training step: records it, has it planned, and carries the plan out."""
