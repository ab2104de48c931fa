#!lua
-- Notes that a copy of an order's command is in the log: its next attention is 60 s off, doubling to 10 min (O2).
--
-- KEYS[1] ordering  zset  order_id -> next attention, ms; its fraction, in eighths, counts acknowledgements up to 4
-- ARGV[1] order_id  string  the order
--
-- Returns {'pushed', wait_ms}: the next attention is that far off.
-- Returns {'gone'}: the order is no longer in flight; nothing changed.
-- Retry: harmless; it doubles once more.

local ordering = KEYS[1]
local order_id = ARGV[1]

local score = redis.call('ZSCORE', ordering, order_id)
if not score then return { 'gone' } end
local count = tonumber(score) % 1 * 8
local t = redis.call('TIME')
local now_ms = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
local wait = math.min(600000, 60000 * 2 ^ count)
redis.call('ZADD', ordering, string.format('%.3f', now_ms + wait + math.min(4, count + 1) / 8), order_id)
return { 'pushed', string.format('%.0f', wait) }
