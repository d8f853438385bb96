"""The base of every machine: transition tables, timers, ids, outbox, and the events and effects that packages share."""
