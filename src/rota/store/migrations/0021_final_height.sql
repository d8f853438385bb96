-- The highest block that was final. A chain that becomes shorter without losing final blocks takes nothing back of that.
ALTER TABLE node ADD COLUMN final_height BIGINT;
