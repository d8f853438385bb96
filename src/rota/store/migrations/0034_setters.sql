-- Versions of one intent, also made-up ones, may permit the same leaf: `set_leaf` permits `leaf` (receipts_due). While the
-- chain has one of them, and neither of the two that its record permits, this node keeps what it has of both. It takes the
-- place of set_intent and set_leaf of receipts_due, which had the latest version alone.
CREATE TABLE setters (
    contract TEXT NOT NULL,
    leaf BYTEA NOT NULL,
    set_leaf BYTEA NOT NULL,
    set_intent BYTEA NOT NULL,
    PRIMARY KEY (contract, leaf, set_leaf)
);
CREATE INDEX setters_by_version ON setters (set_leaf);
INSERT INTO setters (contract, leaf, set_leaf, set_intent)
SELECT contract, leaf, set_leaf, set_intent FROM receipts_due WHERE set_leaf IS NOT NULL;
UPDATE receipts_due SET set_leaf = NULL, set_intent = NULL WHERE set_leaf IS NOT NULL;
