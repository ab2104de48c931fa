-- Who was put out of a line by an operator, and until when. It is kept here because Redis may forget it (F32); the scheduler copies it.

-- +goose Up

-- Each change of a product's bans takes a higher number than the last, under the product's row lock: a line that has those up to n lacks exactly the
-- rows above n.
ALTER TABLE products ADD COLUMN bans_v bigint NOT NULL DEFAULT 0 CHECK (bans_v >= 0);

-- One row per user, which the next change of the same user takes over. A ban that was lifted has its end in the past.
CREATE TABLE bans (
    product_id  text        NOT NULL REFERENCES products (id),
    user_hash   text        NOT NULL,
    user_id     text        NOT NULL,
    until       timestamptz NOT NULL,
    v           bigint      NOT NULL CHECK (v > 0),
    PRIMARY KEY (product_id, user_hash),
    UNIQUE (product_id, v)
);

-- +goose Down
DROP TABLE bans;
ALTER TABLE products DROP COLUMN bans_v;
