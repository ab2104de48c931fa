-- Replays that operators ask for over HTTP: they wait until an order-consumer runs them, and can be cancelled.

-- +goose Up

-- waiting: until a process takes it. stopped: until somebody lets it go on. cancelled and done are final. background: a process may take it without
-- being told; one that a person runs goes on only when a person says so. started_at is when it was asked for.
ALTER TABLE outbox_replays
    ADD COLUMN background boolean NOT NULL DEFAULT false,
    ADD COLUMN missing    bigint  NOT NULL DEFAULT 0 CHECK (missing >= 0), -- events of the range that were not kept any more
    ADD COLUMN problem    text    NOT NULL DEFAULT '';                     -- why the last run ended early
ALTER TABLE outbox_replays DROP CONSTRAINT outbox_replays_state_check;
ALTER TABLE outbox_replays ADD CONSTRAINT outbox_replays_state_check CHECK (state IN ('waiting', 'running', 'stopped', 'cancelled', 'done'));
CREATE INDEX outbox_replays_product ON outbox_replays (product_id, started_at);

-- +goose Down
DROP INDEX outbox_replays_product;
UPDATE outbox_replays SET state = 'stopped' WHERE state = 'waiting';
UPDATE outbox_replays SET state = 'done' WHERE state = 'cancelled';
ALTER TABLE outbox_replays DROP CONSTRAINT outbox_replays_state_check;
ALTER TABLE outbox_replays ADD CONSTRAINT outbox_replays_state_check CHECK (state IN ('running', 'stopped', 'done'));
ALTER TABLE outbox_replays DROP COLUMN background, DROP COLUMN missing, DROP COLUMN problem;
