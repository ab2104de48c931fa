-- Which events are not published yet is noted by run, not by row: a run is what one judge transaction wrote of a product. The relay deletes it,
-- or moves its beginning, when its events are published; so an event is written once and never again, and costs no index of unpublished
-- rows. A product's events are published up to the one before its first run. published_at and claim stay in use for rows that are no events.

-- +goose Up
CREATE TABLE outbox_runs (
    product_id  text        NOT NULL,
    from_seq    bigint      NOT NULL CHECK (from_seq > 0),
    to_seq      bigint      NOT NULL CHECK (to_seq >= from_seq),
    created_at  timestamptz NOT NULL,                       -- that of each of its rows: finds their partition
    PRIMARY KEY (product_id, from_seq)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
INSERT INTO outbox_runs
SELECT product_id, min(seq), max(seq), created_at FROM outbox WHERE published_at IS NULL AND seq IS NOT NULL GROUP BY product_id, created_at;
DROP INDEX outbox_unpublished;
CREATE INDEX outbox_unpublished ON outbox (product_id, n) WHERE published_at IS NULL AND seq IS NULL;

-- +goose Down
UPDATE outbox o SET published_at = now() WHERE seq IS NOT NULL AND published_at IS NULL
  AND NOT EXISTS (SELECT FROM outbox_runs r WHERE r.product_id = o.product_id AND o.seq BETWEEN r.from_seq AND r.to_seq);
DROP TABLE outbox_runs;
DROP INDEX outbox_unpublished;
CREATE INDEX outbox_unpublished ON outbox (product_id, seq, n) WHERE published_at IS NULL;
