"""The features of a node for its users, one folder each; `run.py` is the running node that they share."""
