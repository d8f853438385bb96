"""How contracts come to a node: deployments, contracts of others, lost rounds and states."""
