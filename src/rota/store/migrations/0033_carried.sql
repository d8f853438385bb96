-- Prepared transitions that another private contract is to carry out: with which transaction of ours, under which key,
-- and what became of it.
DROP TABLE chained_intents;
CREATE TABLE carried_transitions (
    contract TEXT NOT NULL,
    intent BYTEA NOT NULL,
    leaf BYTEA NOT NULL,
    digest BYTEA NOT NULL,
    prepared BYTEA NOT NULL,
    idempotency_key TEXT NOT NULL,
    sender TEXT NOT NULL,
    added_at_ms BIGINT NOT NULL,
    chained BYTEA,
    refusal BYTEA,
    is_open INTEGER NOT NULL,
    PRIMARY KEY (contract, leaf, digest)
);
CREATE INDEX carried_open ON carried_transitions (sender, added_at_ms) WHERE is_open = 1;
CREATE INDEX carried_by_intent ON carried_transitions (intent);
CREATE INDEX carried_by_chained ON carried_transitions (chained);
