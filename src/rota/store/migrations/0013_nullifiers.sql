-- Coins that are spent by nullifiers, and the commitments that proofs are about.

-- What spends a state in place of its id, where this node can work it out: its owner is one of its own. The row that a
-- spent nullifier has is one without a state, with the nullifier as its leaf.
ALTER TABLE states ADD COLUMN nullifier BYTEA;
CREATE INDEX states_by_nullifier ON states (contract, nullifier) WHERE nullifier IS NOT NULL;

-- The commitments of a transition, one behind the other. A leaf binds them, so that they never change, whatever becomes
-- of the leaf: their order on the chain is that of outcomes.
CREATE TABLE commitments (
    contract TEXT NOT NULL,
    leaf BYTEA NOT NULL,
    words BYTEA NOT NULL,
    PRIMARY KEY (contract, leaf)
);

-- Where the chain parted from what was indexed, by the position of the record that said so: whoever follows outcomes
-- knows by this what was taken back.
CREATE TABLE reorganisations (
    position BIGINT NOT NULL PRIMARY KEY,
    parted_at BIGINT NOT NULL
);
