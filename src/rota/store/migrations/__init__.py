"""The versions of the schema, in their order: numbered, run at start, never changed once released."""
