"""What operators ask of a node: status, health, its own settings."""
