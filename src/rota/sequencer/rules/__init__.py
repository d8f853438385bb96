"""The rules of the four machines: guards and actions, in the order of their tables."""
