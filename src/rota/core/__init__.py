"""The sequencer, pure: it decides, adapters do. Start reading at `node.py`."""
