-- Which process has the database: a greater number for each that opens it. What is written is written only while this
-- and `written` are as the writer left them.
ALTER TABLE node ADD COLUMN life BIGINT NOT NULL DEFAULT 0;

-- The greatest nonce that this node gave to an account is compared with the chain's at the start.
CREATE INDEX public_by_nonce ON public_transactions (account, nonce);
