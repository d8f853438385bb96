-- Automation: what operators paused, what was set aside, and what other nodes announced.

CREATE TABLE paused_triggers (
    name TEXT NOT NULL PRIMARY KEY
);

-- Tasks that were refused too often, with the last reason.
CREATE TABLE tasks_set_aside (
    trigger_name TEXT NOT NULL,
    task TEXT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (trigger_name, task)
);

-- How each node last said that it takes part: the account that it acts with, and the triggers whose tasks it ranks, with
-- spaces between. A node that is away is a member all the same.
CREATE TABLE trigger_announcements (
    node TEXT NOT NULL PRIMARY KEY,
    account TEXT NOT NULL,
    ranked TEXT NOT NULL
);
