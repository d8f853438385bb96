"""One node, pure: routes events between sequencers, chain, exchange and directory. Start reading at `node.py`."""
