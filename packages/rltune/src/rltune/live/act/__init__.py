"""From a decision to changes, and whether they may be made."""
