"""A scheduler for deep-learning jobs on GPU clusters that learns from the cluster's own history."""
