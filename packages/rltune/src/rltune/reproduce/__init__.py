"""The experiments of the RLTune paper, and its numbers beside ours."""
