-- When an intent was accepted, by this node's own clock: for users to read, and for nothing to be decided by.
ALTER TABLE intents ADD COLUMN accepted_at_ms BIGINT NOT NULL DEFAULT 0;
CREATE INDEX intents_by_position ON intents (position);
