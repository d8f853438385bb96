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
