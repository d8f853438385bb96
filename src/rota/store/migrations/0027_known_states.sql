-- Since which record a state's content and its place on the chain are both known here. Of states that one nullifier
-- spends, the one that was known first is worth something.
ALTER TABLE states ADD COLUMN known_at BIGINT NOT NULL DEFAULT 0;
