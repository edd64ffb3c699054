"""Simulated time: the event loop, and the loops that learning and search need."""
