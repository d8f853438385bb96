-- A key that a caller held to parties used belongs to the party that sent the transaction. Other keys belong to the node.
ALTER TABLE submissions ADD COLUMN key_owner BYTEA;
DROP INDEX submissions_by_exact_key;
CREATE UNIQUE INDEX submissions_by_exact_key ON submissions (exact_key)
WHERE exact_key IS NOT NULL AND key_owner IS NULL;
CREATE UNIQUE INDEX submissions_by_party_key ON submissions (exact_key, key_owner)
WHERE exact_key IS NOT NULL AND key_owner IS NOT NULL;
CREATE INDEX submissions_by_text_key ON submissions (idempotency_key)
WHERE idempotency_key IS NOT NULL AND exact_key IS NULL;
