"""What users and operators reach of a node: JSON-RPC, health, figures. It sees the node through `facade` alone."""
