-- The bookkeeper's own tables, in a schema of their own. All but the payments can be had again by reading the topic from its beginning.
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

-- With -pay-within: what each confirmed order owes. overdue is the decision that it is not paid in time; no payment is taken from then on.
CREATE TABLE IF NOT EXISTS bookkeeper.bills (
    order_id text        PRIMARY KEY,
    product  text        NOT NULL,
    state    text        NOT NULL CHECK (state IN ('unpaid', 'paid', 'overdue', 'cancelled')),
    due      timestamptz NOT NULL,
    asked_at timestamptz -- when the operators' port last took the cancel of an overdue one
);
CREATE INDEX IF NOT EXISTS bills_open ON bookkeeper.bills (due) WHERE state IN ('unpaid', 'overdue');

-- What was paid. early: of an order whose verdict was not read yet; taken: it pays the order's bill; refund: it is to be given back. No
-- event tells of payments, so this table is never rebuilt: keep it.
CREATE TABLE IF NOT EXISTS bookkeeper.payments (
    payment_id  text        PRIMARY KEY,
    order_id    text        NOT NULL,
    state       text        NOT NULL CHECK (state IN ('early', 'taken', 'refund')),
    received_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS payments_of_order ON bookkeeper.payments (order_id);
