-- Times of commands in microseconds.

ALTER TABLE command_stream RENAME COLUMN published_at_ms TO published_at_us;
ALTER TABLE command_stream RENAME COLUMN pruned_at_ms TO pruned_at_us;
UPDATE command_stream SET published_at_us = published_at_us * 1000, pruned_at_us = pruned_at_us * 1000;

ALTER TABLE command_acceptances RENAME COLUMN published_at_ms TO published_at_us;
UPDATE command_acceptances SET published_at_us = published_at_us * 1000;

ALTER TABLE completions RENAME COLUMN published_at_ms TO published_at_us;
ALTER TABLE completions RENAME COLUMN submitted_at_ms TO submitted_at_us;
UPDATE completions SET published_at_us = published_at_us * 1000, submitted_at_us = submitted_at_us * 1000;
