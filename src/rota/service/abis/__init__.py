"""ABIs that users stored, what bytes mean by them, and who a party is on the chain."""
