-- An id is unique within its contract only: anybody can commit the id of a foreign transaction in a contract of their own.
-- So receipts, and receipts that no longer hold, are unique by contract and intent.

CREATE TABLE receipts_by_contract (
    sequence BIGINT NOT NULL PRIMARY KEY,
    intent BYTEA NOT NULL,
    contract TEXT NOT NULL,
    leaf BYTEA NOT NULL,
    type TEXT NOT NULL,
    domain TEXT NOT NULL,
    numbered_at_ms BIGINT NOT NULL,
    UNIQUE (intent, contract)
);
INSERT INTO receipts_by_contract (sequence, intent, contract, leaf, type, domain, numbered_at_ms)
SELECT sequence, intent, contract, leaf, type, domain, numbered_at_ms FROM receipts;
DROP TABLE receipts;
ALTER TABLE receipts_by_contract RENAME TO receipts;

CREATE TABLE receipts_undone_by_contract (
    intent BYTEA NOT NULL,
    contract TEXT NOT NULL,
    leaf BYTEA NOT NULL,
    height BIGINT NOT NULL,
    undone_at_ms BIGINT NOT NULL,
    is_told BIGINT NOT NULL,
    is_acknowledged BIGINT NOT NULL,
    PRIMARY KEY (intent, contract)
);
INSERT INTO receipts_undone_by_contract (intent, contract, leaf, height, undone_at_ms, is_told, is_acknowledged)
SELECT intent, contract, leaf, height, undone_at_ms, is_told, is_acknowledged FROM receipts_undone;
DROP TABLE receipts_undone;
ALTER TABLE receipts_undone_by_contract RENAME TO receipts_undone;
