-- Listeners of receipts and events, and the order in which receipts came.

-- What this node will have a receipt of: transitions that it holds the states of, and endings off the chain, which are
-- final at once and have the intent's id in the place of a leaf. A transition that is not whole is known by its leaf
-- alone: its states are still to come.
CREATE TABLE receipts_due (
    contract TEXT NOT NULL,
    leaf BYTEA NOT NULL,
    intent BYTEA NOT NULL,
    is_final BIGINT NOT NULL,
    is_whole BIGINT NOT NULL,
    valid_until_s BIGINT NOT NULL,
    PRIMARY KEY (contract, leaf)
);
CREATE INDEX receipts_due_final ON receipts_due (contract, leaf) WHERE is_final = 1;

-- Final receipts in the order in which they were complete here; those of public transactions have no contract. A number is given once and never again.
CREATE TABLE receipts (
    sequence BIGINT NOT NULL PRIMARY KEY,
    intent BYTEA NOT NULL UNIQUE,
    contract TEXT NOT NULL,
    leaf BYTEA NOT NULL,
    type TEXT NOT NULL,
    domain TEXT NOT NULL,
    numbered_at_ms BIGINT NOT NULL
);

CREATE TABLE listeners (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    created_at_ms BIGINT NOT NULL,
    is_started BIGINT NOT NULL,
    -- JSON, as its family reads it.
    definition BYTEA NOT NULL,
    -- Up to where its batches were acknowledged: a receipt's sequence; a block and the place of a log in it.
    acknowledged BIGINT NOT NULL,
    acknowledged_place BIGINT NOT NULL,
    PRIMARY KEY (kind, name)
);

-- What ended before there was an order gets its numbers too.
INSERT INTO receipts_due (contract, leaf, intent, is_final, is_whole, valid_until_s)
SELECT contract, id, id, 1, 1, 0 FROM intents WHERE receipt IS NOT NULL;
INSERT INTO receipts_due (contract, leaf, intent, is_final, is_whole, valid_until_s)
SELECT outcomes.contract, outcomes.leaf, outcomes.intent, 0, 1, 0
FROM outcomes JOIN intents ON intents.id = outcomes.intent AND intents.contract = outcomes.contract
WHERE intents.settled_at = outcomes.height AND outcomes.status = 'committed' AND intents.receipt IS NULL;
