#!lua flags=no-writes
-- Tells what the scheduler watches and persists each second (L3, L4).
--
-- KEYS[1] settings   hash    the product's settings
-- KEYS[2] restoring  string  nonce of who restores or advances
-- KEYS[3] clock      hash    low, front, run
-- KEYS[4] active     zset    user -> expiry of the pass, ms
-- KEYS[5] stock      hash    base, seq, held
--
-- Returns {present, restoring, inc, front, active, v, run_id, moved, places_low, stock_known, now_ms}: present is 0 without
--   settings (R4); moved is 1 when the slot was opened or advanced on another run of a server than the one that answers.
-- Foreign: reads stock.base (owner stock).
-- Retry: harmless; it writes nothing.

local settings, restoring, clock, active, stock = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

local t = redis.call('TIME')
local now_ms = string.format('%.0f', tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000))
local v, inc = unpack(redis.call('HMGET', settings, 'v', 'inc'))
local low, front, run = unpack(redis.call('HMGET', clock, 'low', 'front', 'run'))
local run_id = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')

local function flag(condition) return condition and 1 or 0 end
return {
  flag(v), redis.call('EXISTS', restoring), inc, front, redis.call('ZCOUNT', active, '(' .. now_ms, '+inf'), v, run_id,
  flag(v and run ~= run_id), flag(tonumber(low or 0) >= 0.9 * 8796093022208), redis.call('HEXISTS', stock, 'base'), now_ms,
}
