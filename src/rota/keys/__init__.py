"""Keys: what signs for a node and its parties."""
