-- Which intents were built on the states of which others in the same round.
CREATE TABLE chained_intents (
    nonce BIGINT NOT NULL,
    intent BYTEA NOT NULL,
    chained BYTEA NOT NULL,
    PRIMARY KEY (nonce, intent, chained)
);
CREATE INDEX chained_by_intent ON chained_intents (intent);
CREATE INDEX chained_by_chained ON chained_intents (chained);
