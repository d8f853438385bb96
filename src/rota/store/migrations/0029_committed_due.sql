-- The height of the block that committed a transition whose receipt is due, so that those that no block has are not
-- gone through in search of those that can be numbered.
ALTER TABLE receipts_due ADD COLUMN committed_at BIGINT;
UPDATE receipts_due SET committed_at = (
    SELECT MIN(outcomes.height) FROM outcomes
    WHERE outcomes.intent = receipts_due.intent AND outcomes.contract || '' = receipts_due.contract
    AND outcomes.leaf = receipts_due.leaf AND outcomes.status = 'committed')
WHERE is_final = 0;
CREATE INDEX receipts_due_committed ON receipts_due (committed_at) WHERE committed_at IS NOT NULL;
CREATE INDEX receipts_due_bound ON receipts_due (valid_until_s) WHERE is_final = 0;
