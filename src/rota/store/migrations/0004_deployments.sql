-- Contracts that are to come. Deployments that users of this node asked for are intents of no contract.

-- Who signs in the contract that such an intent deploys: there before the factory is called.
CREATE TABLE agreements (
    deployment BYTEA NOT NULL PRIMARY KEY,
    signers BYTEA NOT NULL
);

-- What the factory deployed under ids that this node waited for; taken back by a reorganisation.
CREATE TABLE deployed (
    intent BYTEA NOT NULL,
    height BIGINT NOT NULL,
    deployment BYTEA NOT NULL,
    PRIMARY KEY (intent, height)
);
CREATE INDEX deployed_by_height ON deployed (height);

-- Contracts that others want this node to have, and that are not on the chain yet.
CREATE TABLE proposals (
    peer TEXT NOT NULL,
    deployment BYTEA NOT NULL,
    position BIGINT NOT NULL,
    proposal BYTEA NOT NULL,
    PRIMARY KEY (peer, deployment)
);
CREATE INDEX proposals_by_deployment ON proposals (deployment);
