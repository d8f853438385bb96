"""Private states and their schemas."""
