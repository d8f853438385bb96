"""An operator's consent to contracts that name the node."""
