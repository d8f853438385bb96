"""Private states on their way between nodes, pure: deliveries until acknowledged, and states that no block has yet."""
