-- What users are told of their transactions.

-- ABIs that users stored or submitted, by their hash.
CREATE TABLE abis (
    hash BYTEA NOT NULL PRIMARY KEY,
    stored_at_ms BIGINT NOT NULL,
    abi BYTEA NOT NULL
);

-- Their entries, each once, by what stands in front of a call, an error or an event on the chain.
CREATE TABLE abi_entries (
    kind TEXT NOT NULL,
    key BYTEA NOT NULL,
    hash BYTEA NOT NULL,
    entry BYTEA NOT NULL,
    PRIMARY KEY (kind, key, hash)
);

-- What users asked for, as they asked for it; of a private one the intent has what is done. One that was noted and never
-- accepted has no intent, and is not shown. Texts are for looking things up: what a text column cannot hold is replaced.
CREATE TABLE submissions (
    id BYTEA NOT NULL PRIMARY KEY,
    number BIGINT NOT NULL,
    accepted_at_ms BIGINT NOT NULL,
    type TEXT NOT NULL,
    submit_mode TEXT NOT NULL,
    sender TEXT NOT NULL,
    domain TEXT NOT NULL,
    recipient TEXT,
    function TEXT NOT NULL,
    abi BYTEA,
    idempotency_key TEXT,
    submission BYTEA NOT NULL
);
CREATE UNIQUE INDEX submissions_by_number ON submissions (number);
CREATE INDEX submissions_by_key ON submissions (idempotency_key) WHERE idempotency_key IS NOT NULL;

CREATE TABLE dependencies (
    id BYTEA NOT NULL,
    depends_on BYTEA NOT NULL,
    PRIMARY KEY (id, depends_on)
);
CREATE INDEX dependencies_by_prerequisite ON dependencies (depends_on);

-- Transactions of users on the base ledger itself, with every signed version of each.
CREATE TABLE public_transactions (
    number BIGINT NOT NULL PRIMARY KEY,
    id BYTEA NOT NULL,
    account TEXT NOT NULL,
    recipient TEXT,
    created_at_ms BIGINT NOT NULL,
    nonce BIGINT,
    -- Of the version that is in a block for good.
    hash BYTEA,
    height BIGINT,
    contract TEXT,
    is_final BIGINT NOT NULL,
    has_succeeded BIGINT,
    value_wei TEXT NOT NULL,
    record BYTEA NOT NULL
);
CREATE UNIQUE INDEX public_by_id ON public_transactions (id);
CREATE INDEX public_open ON public_transactions (number) WHERE is_final = 0;
CREATE INDEX public_by_account ON public_transactions (account, number);

-- Which rounds a private transaction was in.
CREATE INDEX dispatched_by_intent ON dispatched_intents (intent);
-- External ones that may still be committed.
CREATE INDEX intents_issued ON intents (id) WHERE issued IS NOT NULL AND receipt IS NULL AND settled_at IS NULL;
