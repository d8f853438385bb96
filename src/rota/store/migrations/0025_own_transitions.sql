-- Whether this node knows a transition by itself: it signed, dispatched or prepared it, or has checked it as an endorser.
-- No leaf binds the signature, the bound and the lists of what a peer sent, so that its own copy is given first.
ALTER TABLE transitions ADD COLUMN is_own BIGINT NOT NULL DEFAULT 0;
