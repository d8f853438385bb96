"""The states of the four machines, and the groups that the rules speak of."""
