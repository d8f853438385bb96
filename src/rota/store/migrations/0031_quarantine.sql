-- Contracts whose records the database rejected: a run does not load them until an operator releases them.
CREATE TABLE contracts_quarantined (
    contract TEXT NOT NULL PRIMARY KEY,
    reason TEXT NOT NULL,
    quarantined_at_ms BIGINT NOT NULL
);
