"""Privacy groups and their messages."""
