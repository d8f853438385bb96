-- The leaves that parties of this node signed, by intent: only one of these confirms its intent. What they make is in
-- `transitions` and `states` from then on. A leaf that the chain cannot commit any more is deleted with its contents.
CREATE TABLE signed_leaves (
    intent BYTEA NOT NULL,
    leaf BYTEA NOT NULL,
    valid_until_s BIGINT NOT NULL,
    PRIMARY KEY (intent, leaf)
);

-- The height at which another leaf than those used an intent's id, and that leaf; taken back by a reorganisation.
ALTER TABLE intents ADD COLUMN used_at BIGINT;
ALTER TABLE intents ADD COLUMN used_leaf BYTEA;
CREATE INDEX intents_used ON intents (used_at) WHERE used_at IS NOT NULL;

-- What was confirmed before leaves were recorded stays confirmed.
INSERT INTO signed_leaves (intent, leaf, valid_until_s)
SELECT DISTINCT outcomes.intent, outcomes.leaf, 0 FROM outcomes JOIN intents ON intents.id = outcomes.intent
WHERE outcomes.contract = intents.contract AND intents.settled_at = outcomes.height AND outcomes.status = 'committed';
