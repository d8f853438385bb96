-- Commands: what is in flight, when each change was accepted last, and how submissions ended.

-- One row: the end of the stream of completions and up to where it was pruned, each with its time of publication.
CREATE TABLE command_stream (
    id BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
    end_offset BIGINT NOT NULL,
    published_at_ms BIGINT NOT NULL,
    pruned_offset BIGINT NOT NULL,
    pruned_at_ms BIGINT NOT NULL
);
INSERT INTO command_stream (id, end_offset, published_at_ms, pruned_offset, pruned_at_ms) VALUES (1, 0, 0, 0, 0);

-- Few rows at a time: read whole at a start.
CREATE TABLE commands_in_flight (
    change_id BYTEA NOT NULL PRIMARY KEY,
    submission_key TEXT NOT NULL,
    submission BYTEA NOT NULL
);

-- The latest acceptance of each change; an earlier one never matters again.
CREATE TABLE command_acceptances (
    change_id BYTEA NOT NULL PRIMARY KEY,
    completion_offset BIGINT NOT NULL,
    published_at_ms BIGINT NOT NULL,
    submission_id BYTEA NOT NULL
);
CREATE INDEX command_acceptances_by_offset ON command_acceptances (completion_offset);

CREATE TABLE completions (
    completion_offset BIGINT NOT NULL PRIMARY KEY,
    published_at_ms BIGINT NOT NULL,
    application_id BYTEA NOT NULL,
    completion BYTEA NOT NULL
);
CREATE INDEX completions_by_application ON completions (application_id, completion_offset);
