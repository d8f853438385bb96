-- Of a transition that only peers have sent: the first of them, and how much it is. What is not on the chain counts
-- against that peer's quota until its bound has passed in final time, and is deleted then.
ALTER TABLE receipts_due ADD COLUMN peer TEXT;
ALTER TABLE receipts_due ADD COLUMN size_bytes BIGINT;
