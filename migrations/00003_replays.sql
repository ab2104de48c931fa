-- Replays of events that were published before: what was asked for, and how far each has come.

-- +goose Up

-- The range is by seq, gapless per product, and never by time: a row may commit later than its time says. runner is the fence: only who wrote it
-- may move next_seq. A running replay, and for a day one that was stopped, keeps the partitions that it still has to read.
CREATE TABLE outbox_replays (
    id          text        PRIMARY KEY,
    product_id  text        NOT NULL,
    from_seq    bigint      NOT NULL CHECK (from_seq > 0),
    to_seq      bigint      NOT NULL CHECK (to_seq >= from_seq),
    types       text[]      NOT NULL DEFAULT '{}',  -- only these; empty: all
    topic       text        NOT NULL,
    rate        integer     NOT NULL CHECK (rate > 0), -- events per second
    operator    text        NOT NULL,
    matched     bigint      NOT NULL,               -- counted at the start
    next_seq    bigint      NOT NULL,
    sent        bigint      NOT NULL DEFAULT 0,
    attempt     integer     NOT NULL DEFAULT 1,     -- runs so far
    state       text        NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'stopped', 'done')),
    runner      text        NOT NULL,
    started_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX outbox_replays_unfinished ON outbox_replays (updated_at) WHERE state <> 'done';

-- +goose Down
DROP TABLE outbox_replays;
