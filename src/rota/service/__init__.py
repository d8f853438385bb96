"""What users see of a node, one folder for each feature; `run.py` is the running node that they share."""
