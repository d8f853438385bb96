"""The live feed of a node."""
