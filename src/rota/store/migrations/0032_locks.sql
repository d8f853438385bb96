-- Of a transition that the record of a lock permits: the intent and the leaf of the transition that set the record.
-- While the chain has that leaf, and neither of the two that it permits, this node keeps what it has of both.
ALTER TABLE receipts_due ADD COLUMN set_intent BYTEA;
ALTER TABLE receipts_due ADD COLUMN set_leaf BYTEA;
