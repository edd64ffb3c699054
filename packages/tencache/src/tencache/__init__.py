"""Trains models larger than the device by planning every tensor's place ahead of time."""
