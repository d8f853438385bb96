-- What was proved of intents that have not ended: the latest of each, so that a restart does not prove it again.
CREATE TABLE proofs (
    intent BYTEA NOT NULL PRIMARY KEY,
    leaf BYTEA NOT NULL,
    valid_until_s BIGINT NOT NULL,
    proof BYTEA NOT NULL
);
