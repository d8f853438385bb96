"""What the sequencer does and why it waits: leaders, open transactions, blocking nodes."""
