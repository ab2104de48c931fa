-- When a row was claimed is no longer written: the session that holds a shard's lock is the claim. claim stays; it tells who published a row.

-- +goose Up
ALTER TABLE outbox DROP COLUMN claimed_at;

-- +goose Down
ALTER TABLE outbox ADD COLUMN claimed_at timestamptz;
