"""Every experiment of the RLTune paper by one command: `rltune reproduce`.

An experiment names the steps that it needs (a training, a run of held-out windows, ...) and turns their results into
cells: the paper's number, ours under three protocols, and a sentence on what differs. Steps are kept on disk by all
that they depend on, so that an interrupted run goes on where it was.
"""
