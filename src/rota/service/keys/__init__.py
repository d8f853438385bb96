"""Keys of this node's parties."""
