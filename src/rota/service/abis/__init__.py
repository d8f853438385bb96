"""ABIs that users stored, decoding with them, and the addresses of parties on the chain."""
