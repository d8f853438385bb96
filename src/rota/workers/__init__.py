"""Worker processes: how a node computes for long without holding up its event loop."""
