-- Receipts that no longer hold, because the chain took back blocks that were final.

-- What the receipt of an intent was before it was marked, where it had one beside the chain's word.
ALTER TABLE intents ADD COLUMN receipt_before BYTEA;

-- What such blocks had committed; removed when a block has it again. Few rows, and mostly none.
CREATE TABLE receipts_undone (
    intent BYTEA NOT NULL PRIMARY KEY,
    contract TEXT NOT NULL,
    -- That of the commit; of a deployment and of a public transaction empty.
    leaf BYTEA NOT NULL,
    height BIGINT NOT NULL,
    undone_at_ms BIGINT NOT NULL,
    -- Whether listeners were told, and whether an operator has acknowledged it.
    is_told BIGINT NOT NULL,
    is_acknowledged BIGINT NOT NULL
);

-- How many confirmations the latest life used: a node that cannot ask its chain at a start uses as many.
ALTER TABLE node ADD COLUMN confirmations BIGINT;
