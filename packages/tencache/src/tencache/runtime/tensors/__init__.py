"""Which bytes belong to which parameter, and where its copies are now."""
