"""Log events: their declaration, the catalogue of all of them, and the limits on repeated ones."""
