"""What the sequencer does and why it waits: who leads, what is under way, who is in the way."""
