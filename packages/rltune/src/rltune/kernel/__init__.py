"""The decision core: ordering, fitting and backfilling exist here once. No I/O, no clock, no unseeded number."""
