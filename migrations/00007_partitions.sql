-- Partitions of the outbox are made and dropped by functions that run as the schema's owner, so that the role of the services need own nothing and
-- may make no table. Their search path ends in pg_temp: a temporary table of the caller's cannot stand in for one of ours.

-- +goose Up
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- Makes the partition of a day (UTC), and says whether it was not there. Rows of the day that lie in the default partition move to it. It is built
-- apart and attached: unlike CREATE TABLE … PARTITION OF, that need not shut out readers and writers of the other partitions.
-- +goose StatementBegin
CREATE FUNCTION outbox_make_partition(day date) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    part  text := 'outbox_' || to_char(day, 'YYYYMMDD');
    since text := to_char(day, 'YYYY-MM-DD') || ' 00:00:00+00';
    until text := to_char(day + 1, 'YYYY-MM-DD') || ' 00:00:00+00';
BEGIN
    -- The catalogue itself: within a transaction that waited for a lock, to_regclass may answer from a cache that has not heard of what others
    -- made meanwhile.
    IF EXISTS (SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'outbox'::regclass AND c.relname = part) THEN
        RETURN false;
    END IF;
    -- In an order that cannot meet a relay or a judge halfway: the tables are locked, the whole before its part, before one of their rows is.
    EXECUTE format('CREATE TABLE %I (LIKE outbox INCLUDING ALL)', part);
    EXECUTE format('ALTER TABLE %I ADD CONSTRAINT day CHECK (created_at >= %L AND created_at < %L)', part, since, until);
    IF since::timestamptz < clock_timestamp() + interval '2 days' THEN
        -- Rows may be on their way into the default partition. An insert that had chosen it before the new one was attached would fail, so
        -- it must wait before it chooses.
        LOCK TABLE ONLY outbox IN ACCESS EXCLUSIVE MODE;
    ELSE
        LOCK TABLE ONLY outbox IN SHARE UPDATE EXCLUSIVE MODE;
    END IF;
    LOCK TABLE ONLY outbox_default IN ACCESS EXCLUSIVE MODE;
    EXECUTE format('WITH moved AS (DELETE FROM outbox_default WHERE created_at >= %L AND created_at < %L RETURNING *) INSERT INTO %I SELECT * FROM moved',
        since, until, part);
    EXECUTE format('ALTER TABLE outbox ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', part, since, until);
    EXECUTE format('ALTER TABLE %I DROP CONSTRAINT day', part);
    RETURN true;
END $$;
-- +goose StatementEnd

-- Says why the partition of a day must stay, or ''. It never reads the partition whole. A replay that runs, and for a day after its last sign of life
-- one that waits, was stopped or died, keeps what it still has to read.
-- +goose StatementBegin
CREATE FUNCTION outbox_keeps_partition(day date) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    part  text := 'outbox_' || to_char(day, 'YYYYMMDD');
    since timestamptz := (to_char(day, 'YYYY-MM-DD') || ' 00:00:00+00')::timestamptz;
    until timestamptz := (to_char(day + 1, 'YYYY-MM-DD') || ' 00:00:00+00')::timestamptz;
    why   text;
BEGIN
    EXECUTE format($why$
SELECT CASE
  WHEN EXISTS (SELECT FROM outbox_runs WHERE created_at >= $1 AND created_at < $2)
    OR EXISTS (SELECT FROM %1$I WHERE published_at IS NULL AND seq IS NULL) THEN 'unpublished rows'
  WHEN EXISTS (SELECT FROM outbox_replays r WHERE r.state NOT IN ('done', 'cancelled') AND r.updated_at > now() - interval '1 day'
    AND EXISTS (SELECT FROM %1$I o WHERE o.product_id = r.product_id AND o.seq BETWEEN r.next_seq AND r.to_seq)) THEN 'a replay reads it'
  ELSE '' END$why$, part) INTO why USING since, until;
    RETURN why;
END $$;
-- +goose StatementEnd

-- Drops the partition of a day, and says why not where it must stay; NULL when there is none.
-- +goose StatementBegin
CREATE FUNCTION outbox_drop_partition(day date) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    part text := 'outbox_' || to_char(day, 'YYYYMMDD');
    why  text;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'outbox'::regclass AND c.relname = part) THEN
        RETURN NULL;
    END IF;
    LOCK TABLE ONLY outbox IN ACCESS EXCLUSIVE MODE;
    EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', part);
    why := outbox_keeps_partition(day);
    IF why = '' THEN
        EXECUTE format('DROP TABLE %I', part);
    END IF;
    RETURN why;
END $$;
-- +goose StatementEnd

-- Whoever may run the services is told apart from everybody else: deploy/postgres/roles.sql.
REVOKE ALL ON FUNCTION outbox_make_partition(date), outbox_keeps_partition(date), outbox_drop_partition(date) FROM PUBLIC;

-- +goose Down
DROP FUNCTION outbox_drop_partition(date), outbox_keeps_partition(date), outbox_make_partition(date);
