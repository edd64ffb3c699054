"""Where a job fits now: nodes, racks, ways and pools."""
