"""One pass over the queue, under every kind of backfilling."""
