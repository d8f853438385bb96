-- One schema for both databases. The types are PostgreSQL's; SQLite takes any name and stores what it is given.
-- What is looked up or joined is a column, the rest of a value is one blob (encoding.py). Texts that others wrote
-- are blobs too, because a PostgreSQL text cannot hold every character that they may.

CREATE TABLE node (
    id BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
    name TEXT NOT NULL,
    incarnation BIGINT NOT NULL,
    -- Grows with every transaction: it orders records, and says whether a commit in doubt has happened.
    written BIGINT NOT NULL,
    next_nonce BIGINT NOT NULL,
    -- Of every block that was ever indexed, also of one that is gone.
    latest_chain_time_s BIGINT NOT NULL
);
INSERT INTO node (id, name, incarnation, written, next_nonce, latest_chain_time_s) VALUES (1, '', 0, 0, 0, 0);

CREATE TABLE contracts (
    address TEXT NOT NULL PRIMARY KEY,
    contract BYTEA NOT NULL
);

-- Intents of this node's own parties, for ever: they are what an idempotency key and a receipt are asked of.
CREATE TABLE intents (
    id BYTEA NOT NULL PRIMARY KEY,
    contract TEXT NOT NULL,
    position BIGINT NOT NULL,
    idempotency_key BYTEA,
    intent BYTEA NOT NULL,
    parked_reason BYTEA,
    ending_reason BYTEA,
    permission BYTEA,
    issued BYTEA,
    void_after_s BIGINT NOT NULL DEFAULT 0,
    receipt BYTEA,
    -- The heights at which it was committed, or voided; taken back by a reorganisation.
    settled_at BIGINT,
    voided_at BIGINT
);
CREATE INDEX intents_by_key ON intents (idempotency_key, position) WHERE idempotency_key IS NOT NULL;
CREATE INDEX intents_unfinished ON intents (contract, position) WHERE receipt IS NULL AND settled_at IS NULL;
CREATE INDEX intents_settled ON intents (settled_at) WHERE settled_at IS NOT NULL;
CREATE INDEX intents_voided ON intents (voided_at) WHERE voided_at IS NOT NULL;

CREATE TABLE dispatches (
    nonce BIGINT NOT NULL PRIMARY KEY,
    contract TEXT NOT NULL,
    digest BYTEA NOT NULL,
    dispatch BYTEA NOT NULL,
    -- The height from which on its nonce is used and each of its transitions has an outcome.
    settled_at BIGINT
);
CREATE INDEX dispatches_unsettled ON dispatches (nonce) WHERE settled_at IS NULL;
CREATE INDEX dispatches_settled ON dispatches (settled_at) WHERE settled_at IS NOT NULL;

CREATE TABLE dispatched_intents (
    nonce BIGINT NOT NULL,
    intent BYTEA NOT NULL,
    PRIMARY KEY (nonce, intent)
);

-- Transitions with their private states, as this node dispatched or received them.
CREATE TABLE transitions (
    contract TEXT NOT NULL,
    leaf BYTEA NOT NULL,
    digest BYTEA NOT NULL,
    position BIGINT NOT NULL,
    transition BYTEA NOT NULL,
    PRIMARY KEY (contract, leaf, digest)
);

-- Whom this node owes states: of the dispatch with this nonce, or, without one, of the prepared transition
-- whose leaf the digest is.
CREATE TABLE deliveries (
    digest BYTEA NOT NULL,
    peer TEXT NOT NULL,
    part BIGINT NOT NULL,
    nonce BIGINT,
    is_acknowledged BIGINT NOT NULL,
    PRIMARY KEY (digest, peer, part)
);
CREATE INDEX deliveries_open ON deliveries (nonce, digest) WHERE is_acknowledged = 0;

CREATE TABLE prepared (
    contract TEXT NOT NULL,
    leaf BYTEA NOT NULL,
    digest BYTEA NOT NULL,
    position BIGINT NOT NULL,
    intent BYTEA NOT NULL,
    valid_until_s BIGINT NOT NULL,
    record BYTEA NOT NULL,
    is_acknowledged BIGINT NOT NULL,
    PRIMARY KEY (leaf, digest, contract)
);
CREATE INDEX prepared_by_end ON prepared (contract, valid_until_s);

CREATE TABLE endorsed (
    contract TEXT NOT NULL,
    leaf BYTEA NOT NULL,
    valid_until_s BIGINT NOT NULL,
    position BIGINT NOT NULL,
    intent BYTEA NOT NULL,
    kept BYTEA NOT NULL,
    PRIMARY KEY (contract, valid_until_s, leaf)
);

-- The latest blocks only; what they did stays in the two tables after this one.
CREATE TABLE blocks (
    height BIGINT NOT NULL PRIMARY KEY,
    time_s BIGINT NOT NULL,
    block BYTEA NOT NULL
);

CREATE TABLE outcomes (
    height BIGINT NOT NULL,
    place BIGINT NOT NULL,
    contract TEXT NOT NULL,
    intent BYTEA NOT NULL,
    leaf BYTEA NOT NULL,
    digest BYTEA NOT NULL,
    status TEXT NOT NULL,
    outcome BYTEA NOT NULL,
    PRIMARY KEY (height, place)
);
CREATE INDEX outcomes_by_intent ON outcomes (intent);
CREATE INDEX outcomes_by_contract ON outcomes (contract, height, place);

CREATE TABLE mined (
    nonce BIGINT NOT NULL PRIMARY KEY,
    height BIGINT NOT NULL,
    status TEXT NOT NULL
);
CREATE INDEX mined_by_height ON mined (height);
