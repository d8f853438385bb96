"""Commands that happen exactly once."""
