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
