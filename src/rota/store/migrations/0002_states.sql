-- The private states that this node holds, by the leaf that made them. Content, commit and spend come in any order: a
-- row without a state is one that was spent and that this node does not hold, or not yet.
CREATE TABLE states (
    contract TEXT NOT NULL,
    leaf BYTEA NOT NULL,
    output BIGINT NOT NULL,
    state BYTEA,
    -- The block that committed its leaf, and the block that spent it; taken back by a reorganisation. The place in its
    -- block stays: it says that somebody may have been told of this state.
    committed_at BIGINT,
    place BIGINT,
    spent_at BIGINT,
    -- The position of the record that changed it last: whoever knows of all up to a position asks for what came since.
    changed BIGINT NOT NULL,
    PRIMARY KEY (contract, leaf, output)
);
CREATE INDEX states_unspent ON states (contract, committed_at, place, output)
    WHERE state IS NOT NULL AND committed_at IS NOT NULL AND spent_at IS NULL;
CREATE INDEX states_changed ON states (contract, changed) WHERE state IS NOT NULL AND place IS NOT NULL;
CREATE INDEX states_committed ON states (committed_at) WHERE committed_at IS NOT NULL;
CREATE INDEX states_spent ON states (spent_at) WHERE spent_at IS NOT NULL;
