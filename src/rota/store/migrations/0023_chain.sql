-- The hash of block 0 of the chain that this node's database belongs to: a node never goes on with another chain.
ALTER TABLE node ADD COLUMN chain_genesis BYTEA;
