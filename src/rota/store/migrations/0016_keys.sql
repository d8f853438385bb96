-- An idempotency key belongs to one submission: the key as it was given, since the text may have characters replaced.
-- Submissions from before have none here and are found by the text.
ALTER TABLE submissions ADD COLUMN exact_key BYTEA;
CREATE UNIQUE INDEX submissions_by_exact_key ON submissions (exact_key) WHERE exact_key IS NOT NULL;

-- A private submission used to be noted before its intent was accepted. Now both are one write.
DELETE FROM submissions WHERE type = 'private' AND NOT EXISTS (SELECT 1 FROM intents WHERE intents.id = submissions.id);
DELETE FROM dependencies WHERE NOT EXISTS (SELECT 1 FROM submissions WHERE submissions.id = dependencies.id);
