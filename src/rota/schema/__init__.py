"""Values that the node and its client exchange as JSON."""
