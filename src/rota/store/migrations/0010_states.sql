-- What changed of a contract's states is read in pages, also of those that have no place on the chain.
DROP INDEX states_changed;
CREATE INDEX states_held ON states (contract, changed) WHERE state IS NOT NULL;
