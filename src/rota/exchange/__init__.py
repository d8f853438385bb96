"""Private states between nodes, pure: deliveries until acknowledged, and states that no block has yet."""
