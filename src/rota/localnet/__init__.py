"""Networks from outside: creating contracts on their nodes, and starting a whole network on this machine."""
