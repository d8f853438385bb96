-- What ended intents whose receipts were not written yet when the chain took back the final blocks that had it: the
-- deployment, or what voided or used the id. A receipt that is written afterwards rests on it, and is marked at once.
CREATE TABLE endings_lost (
    intent BYTEA NOT NULL,
    contract TEXT NOT NULL,
    leaf BYTEA NOT NULL,
    height BIGINT NOT NULL,
    PRIMARY KEY (intent, contract)
);
