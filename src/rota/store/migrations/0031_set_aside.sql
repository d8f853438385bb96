-- Contracts whose records the database rejected: a run does not load them until an operator releases them.
CREATE TABLE contracts_set_aside (
    contract TEXT NOT NULL PRIMARY KEY,
    reason TEXT NOT NULL,
    set_aside_at_ms BIGINT NOT NULL
);
