-- The bookkeeper's own tables, in a schema of their own. Everything in them but the payments can be had again by reading the topic from its beginning.
CREATE SCHEMA IF NOT EXISTS bookkeeper;

-- What the events of each product add up to, and seq, the last of them. Both change in one transaction: that is the position.
CREATE TABLE IF NOT EXISTS bookkeeper.products (
    product text   PRIMARY KEY,
    seq     bigint NOT NULL DEFAULT 0,
    total   bigint NOT NULL DEFAULT 0,
    sold    bigint NOT NULL DEFAULT 0
);

-- The events that were entered, to know them again by their id. Rows of long ago may be deleted: an event whose seq is not above the
-- product's is old, known by its id or not.
CREATE TABLE IF NOT EXISTS bookkeeper.entered (
    event_id text   PRIMARY KEY,
    product  text   NOT NULL,
    seq      bigint NOT NULL,
    UNIQUE (product, seq)
);

-- Events behind a gap. They wait here until the missing ones came.
CREATE TABLE IF NOT EXISTS bookkeeper.early (
    product  text   NOT NULL,
    seq      bigint NOT NULL,
    event_id text   NOT NULL,
    data     text   NOT NULL,
    PRIMARY KEY (product, seq)
);

-- Each order as it stands. quantity is NULL where the order itself was never seen.
CREATE TABLE IF NOT EXISTS bookkeeper.orders (
    order_id text PRIMARY KEY,
    product  text NOT NULL,
    state    text NOT NULL CHECK (state IN ('confirmed', 'rejected', 'cancelled')),
    reason   text,
    quantity bigint
);
