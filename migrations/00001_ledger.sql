-- The ledger: what was judged, what stock is left, what must still be told. Every statement that decides anything locks
-- the product's stock row first, so one writer at a time judges a product.

-- +goose Up

-- A product and what operators set. line_inc, opened_us, front, active_n and front_at are the three small facts (and
-- their times) that let a forgotten line be continued.
CREATE TABLE products (
    id          text        PRIMARY KEY CHECK (id ~ '^[A-Za-z0-9._-]{1,64}$'),
    settings    jsonb       NOT NULL,
    settings_v  bigint      NOT NULL DEFAULT 1 CHECK (settings_v > 0),
    line_inc    integer     NOT NULL DEFAULT 0 CHECK (line_inc BETWEEN 0 AND 1023),
    opened_us   bigint,                          -- first opening, microseconds since 1970; set once
    front       bigint      NOT NULL DEFAULT 0,  -- highest admitted place
    active_n    integer     NOT NULL DEFAULT 0 CHECK (active_n >= 0),
    front_at    timestamptz,                     -- when front and active_n were read; NULL: not since the opening
    pass_epoch  bigint      NOT NULL DEFAULT 1,
    created_at  timestamptz NOT NULL DEFAULT now()
);

-- Stock has its own table, so that settings updates do not meet the judge's lock. The CHECK is the guard behind the
-- judge, not its way of deciding.
CREATE TABLE stock (
    product_id  text    PRIMARY KEY REFERENCES products (id),
    total       bigint  NOT NULL DEFAULT 0,
    sold        bigint  NOT NULL DEFAULT 0,
    seq         bigint  NOT NULL DEFAULT 0,      -- number of the product's last event; gapless
    CHECK (0 <= sold AND sold <= total),
    CHECK (seq >= 0)
) WITH (fillfactor = 50);

-- One row per order id, written by its verdict or by the cancel that overtook it. user_hash is the keyed hash of user_id
-- and stands for it in every constraint; user_id is NULL where only the hash was known (void). quantity and place are NULL for
-- void and tombstones, place also for an order without a line. judged_at is the row's last change. version: 1 verdict, 2 cancelled.
CREATE TABLE orders (
    order_id    uuid        PRIMARY KEY,
    product_id  text        NOT NULL,
    user_id     text,
    user_hash   text        NOT NULL,
    place       bigint      CHECK (place > 0),
    quantity    integer     CHECK (quantity > 0),
    status      text        NOT NULL CHECK (status IN ('confirmed', 'rejected', 'cancelled')),
    reason      text        CHECK (reason IN ('sold_out', 'limit', 'expired', 'duplicate_key', 'failed', 'operator', 'cancelled_before_judged')),
    version     smallint    NOT NULL CHECK (version IN (1, 2)),
    idem_key    text,
    digest      text        NOT NULL DEFAULT '',
    duplicate_of uuid,                           -- the order that has the key, for reason duplicate_key
    seq         bigint      NOT NULL,            -- the event of the row's last change
    judged_at   timestamptz NOT NULL DEFAULT now(),
    UNIQUE (product_id, user_hash, place),
    UNIQUE (product_id, user_hash, idem_key),
    CHECK ((status = 'confirmed') = (reason IS NULL)),
    CHECK (status <> 'confirmed' OR (quantity IS NOT NULL AND user_id IS NOT NULL))
);
CREATE INDEX orders_confirmed_of_user ON orders (product_id, user_hash) INCLUDE (quantity) WHERE status = 'confirmed';
CREATE INDEX orders_judged_at ON orders (judged_at, order_id);

-- Commands other than places, by id: a repeat finds its old answer. seq is NULL where the command made no event.
CREATE TABLE commands (
    command_id  text        PRIMARY KEY,
    product_id  text        NOT NULL,
    kind        text        NOT NULL CHECK (kind IN ('cancel', 'adjust', 'load_stock', 'void')),
    result      text        NOT NULL,
    seq         bigint,
    judged_at   timestamptz NOT NULL DEFAULT now()
);

-- What must be published, written with what it tells. Columns named as Debezium's outbox event router expects them. It is
-- partitioned by time, so uniqueness of (product, seq) follows from the stock row's lock. seq is NULL for rows that are no events
-- (commands to the topic orders, dead letters); those leave per product in the order of n. The default partition takes what no
-- other partition covers.
CREATE TABLE outbox (
    id            uuid        NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    n             bigserial   NOT NULL,
    topic         text        NOT NULL,
    product_id    text        NOT NULL,
    seq           bigint,
    aggregatetype text        NOT NULL,
    aggregateid   text        NOT NULL,
    type          text        NOT NULL,
    payload       text        NOT NULL,
    traceparent   text,
    left_after    bigint,
    claim         text,
    claimed_at    timestamptz,
    published_at  timestamptz,
    PRIMARY KEY (id, created_at),
    UNIQUE (product_id, seq, created_at)
) PARTITION BY RANGE (created_at);
CREATE TABLE outbox_default PARTITION OF outbox DEFAULT;
CREATE INDEX outbox_unpublished ON outbox (product_id, seq, n) WHERE published_at IS NULL;

-- How far the judge has come, written in its own transaction: after a loss of the newest transactions the consumer starts from
-- the lower of this and Kafka's offset.
CREATE TABLE consumer_progress (
    topic       text        NOT NULL,
    partition   integer     NOT NULL,
    next_offset bigint      NOT NULL CHECK (next_offset >= 0),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (topic, partition)
);

-- Commands that could not be processed, until an operator redrives or drops them. One that did not verify has neither order_id
-- nor command_id, so that it blocks nobody's id.
CREATE TABLE dead_letters (
    id          bigserial   PRIMARY KEY,
    topic       text        NOT NULL,
    partition   integer     NOT NULL,
    "offset"    bigint      NOT NULL,
    product_id  text,
    order_id    uuid        UNIQUE,
    command_id  text        UNIQUE,
    reason      text        NOT NULL,
    record_key  bytea,
    payload     bytea       NOT NULL,
    recorded_at timestamptz NOT NULL,            -- the record's own timestamp
    state       text        NOT NULL DEFAULT 'parked' CHECK (state IN ('parked', 'redriven', 'dropped')),
    parked_at   timestamptz NOT NULL DEFAULT now(),
    UNIQUE (topic, partition, "offset"),
    CHECK (order_id IS NULL OR command_id IS NULL)
);

-- Who did what. A repeat of request_id finds its old answer.
CREATE TABLE operator_actions (
    id          bigserial   PRIMARY KEY,
    request_id  text        NOT NULL UNIQUE,
    operator    text        NOT NULL,
    action      text        NOT NULL,
    product_id  text        NOT NULL,
    request     jsonb       NOT NULL,
    result      jsonb       NOT NULL,
    at          timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX operator_actions_product ON operator_actions (product_id, at);

-- +goose Down
DROP TABLE operator_actions, dead_letters, consumer_progress, outbox, commands, orders, stock, products;
