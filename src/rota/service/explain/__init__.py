"""The sequencer's work and its reasons for waiting: leaders, open transactions, blocking nodes."""
