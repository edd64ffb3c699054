"""Carries a plan out on a model that trains. Everything here needs torch."""
