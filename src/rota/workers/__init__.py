"""Worker processes: long computations outside the node's event loop."""
