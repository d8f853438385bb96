-- The submitting accounts of a node. One is named by the contract whose own account it is, the shared one by nothing.
-- `is_own` is the operator's choice for a contract; without one the node's default counts.
CREATE TABLE accounts (
    contract TEXT NOT NULL PRIMARY KEY,
    next_nonce BIGINT NOT NULL,
    is_own BIGINT
);
INSERT INTO accounts (contract, next_nonce) SELECT '', next_nonce FROM node;

-- A dispatch has an account and a nonce of it. What belongs to a dispatch names it by a number, which clients know it by:
-- that was its nonce as long as there was one account. `node.next_nonce` is not used any more.
ALTER TABLE dispatches RENAME COLUMN nonce TO number;
ALTER TABLE dispatches ADD COLUMN account TEXT NOT NULL DEFAULT '';
ALTER TABLE dispatches ADD COLUMN nonce BIGINT NOT NULL DEFAULT 0;
-- The address of the account; unknown for those of before, which were all of the shared one.
ALTER TABLE dispatches ADD COLUMN signer TEXT;
UPDATE dispatches SET nonce = number;
CREATE UNIQUE INDEX dispatches_by_nonce ON dispatches (account, nonce);
ALTER TABLE dispatched_intents RENAME COLUMN nonce TO number;
ALTER TABLE chained_intents RENAME COLUMN nonce TO number;
ALTER TABLE deliveries RENAME COLUMN nonce TO number;

CREATE TABLE mined_by_account (
    account TEXT NOT NULL,
    nonce BIGINT NOT NULL,
    height BIGINT NOT NULL,
    status TEXT NOT NULL,
    PRIMARY KEY (account, nonce)
);
INSERT INTO mined_by_account (account, nonce, height, status) SELECT '', nonce, height, status FROM mined;
DROP TABLE mined;
ALTER TABLE mined_by_account RENAME TO mined;
CREATE INDEX mined_by_height ON mined (height);
