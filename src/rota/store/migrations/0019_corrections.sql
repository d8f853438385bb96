-- Completions that no longer hold are corrected by later ones: their transactions and submissions are looked up.
-- Completions of earlier versions of the schema have none of these, and are not corrected.
ALTER TABLE completions ADD COLUMN change_id BYTEA;
ALTER TABLE completions ADD COLUMN submission_key TEXT;
ALTER TABLE completions ADD COLUMN submitted_at_ms BIGINT;
ALTER TABLE completions ADD COLUMN transaction_id BYTEA;
ALTER TABLE completions ADD COLUMN has_succeeded BIGINT;
-- Also 1 of a completion that says that the outcome is open again: the next one of its submission corrects it.
ALTER TABLE completions ADD COLUMN is_corrected BIGINT NOT NULL DEFAULT 0;
CREATE INDEX completions_by_transaction ON completions (transaction_id) WHERE transaction_id IS NOT NULL;
CREATE INDEX completions_failed ON completions (completion_offset)
    WHERE transaction_id IS NOT NULL AND has_succeeded = 0 AND is_corrected = 0;
