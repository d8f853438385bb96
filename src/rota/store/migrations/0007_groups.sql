-- Privacy groups, their messages, and keys by name.

-- The identifiers of keys that were asked for, as a tree: `org.alice` stands under `org`. An entry without an address is
-- only a branch. `place` numbers the entries under one parent in the order in which they came.
CREATE TABLE key_names (
    path TEXT NOT NULL PRIMARY KEY,
    parent TEXT NOT NULL,
    name TEXT NOT NULL,
    place BIGINT NOT NULL,
    address TEXT,
    handle TEXT NOT NULL
);
CREATE UNIQUE INDEX key_names_by_parent ON key_names (parent, place);
CREATE INDEX key_names_by_address ON key_names (address) WHERE address IS NOT NULL;

-- Privacy groups: written with the intent that deploys one, and with the contract that a node takes in. What a group is
-- stands in its genesis; of two that claim one id the first stays.
CREATE TABLE groups (
    domain TEXT NOT NULL,
    id BYTEA NOT NULL,
    name TEXT NOT NULL,
    created_at_ms BIGINT NOT NULL,
    deployment BYTEA NOT NULL,
    contract TEXT,
    genesis BYTEA NOT NULL,
    PRIMARY KEY (domain, id)
);
CREATE INDEX groups_by_contract ON groups (contract) WHERE contract IS NOT NULL;
CREATE INDEX groups_by_creation ON groups (created_at_ms);

CREATE TABLE group_members (
    member TEXT NOT NULL,
    domain TEXT NOT NULL,
    id BYTEA NOT NULL,
    PRIMARY KEY (member, domain, id)
);

-- What members of a group told each other, in the order in which this node has it. An id counts together with the node
-- that gave it: nobody can keep another's message away by using its id first.
CREATE TABLE group_messages (
    id BYTEA NOT NULL,
    sequence BIGINT NOT NULL,
    domain TEXT NOT NULL,
    group_id BYTEA NOT NULL,
    node TEXT NOT NULL,
    sent_at_ms BIGINT NOT NULL,
    received_at_ms BIGINT NOT NULL,
    correlation_id BYTEA,
    topic TEXT NOT NULL,
    content BYTEA NOT NULL,
    PRIMARY KEY (id, node)
);
CREATE UNIQUE INDEX group_messages_by_sequence ON group_messages (sequence);

-- What is sent to a peer until it says that it has it: a group's message, or a state that was sent again on demand.
CREATE TABLE mail (
    id BYTEA NOT NULL PRIMARY KEY,
    peer TEXT NOT NULL,
    kind TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    contract TEXT NOT NULL,
    -- The message's id, or the state's leaf.
    reference BYTEA NOT NULL,
    created_at_ms BIGINT NOT NULL,
    acknowledged_at_ms BIGINT
);
CREATE UNIQUE INDEX mail_by_sequence ON mail (sequence);
CREATE INDEX mail_open ON mail (peer, sequence) WHERE acknowledged_at_ms IS NULL;
CREATE INDEX mail_by_reference ON mail (reference, peer);

-- When states were owed, and when they were acknowledged: for users to read.
ALTER TABLE deliveries ADD COLUMN created_at_ms BIGINT NOT NULL DEFAULT 0;
ALTER TABLE deliveries ADD COLUMN acknowledged_at_ms BIGINT;

-- When states came to this node, and schemas were first shown: for users to read.
ALTER TABLE states ADD COLUMN created_at_ms BIGINT NOT NULL DEFAULT 0;
CREATE TABLE schemas (
    id BYTEA NOT NULL PRIMARY KEY,
    created_at_ms BIGINT NOT NULL
);

-- States that users gave to this node by hand: no contract made them, and they are never on the chain.
CREATE TABLE stored_states (
    contract TEXT NOT NULL,
    leaf BYTEA NOT NULL,
    created_at_ms BIGINT NOT NULL,
    state BYTEA NOT NULL,
    PRIMARY KEY (contract, leaf)
);
