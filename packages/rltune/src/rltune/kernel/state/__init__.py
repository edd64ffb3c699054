"""The arrays of a run, and the small structures kept in them."""
