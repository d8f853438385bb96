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
