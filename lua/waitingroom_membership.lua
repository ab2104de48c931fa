#!lua flags=no-writes
-- Looks one user up in every set at one instant, for the auditor (2.7, step 6).
--
-- KEYS[1] waiting  zset  user -> place
-- KEYS[2] away     zset  user -> place
-- KEYS[3] active   zset  user -> expiry of the pass, ms of running time
-- KEYS[4] who      hash  user -> state|place|order_id|t
-- KEYS[5] intents  hash  order_id -> q|digest|bytes
-- ARGV[1] user  string  the user's hash, 32 hex digits
--
-- Returns {waiting, away, active, record, intent}: the places or '0'; active is 1 if there; the record or ''; intent is 1 if the
--   record names an order that is in flight.
-- Retry: harmless; it writes nothing.

local waiting, away, active, who, intents = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local user = ARGV[1]

local function place(score) return string.format('%.0f', tonumber(score or 0)) end

local record = redis.call('HGET', who, user) or ''
local order_id = string.match(record, '^%a+|%d+|([^|]*)|') or ''
return {
  place(redis.call('ZSCORE', waiting, user)), place(redis.call('ZSCORE', away, user)),
  redis.call('ZSCORE', active, user) and 1 or 0, record, redis.call('HEXISTS', intents, order_id),
}
