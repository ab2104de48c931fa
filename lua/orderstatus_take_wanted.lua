#!lua
-- Hands out wanted orders whose turn it is and puts their next turn 5 seconds off.
--
-- KEYS[1] wanted  zset  product|userhash|order_id|deadline_ms -> its next turn, ms
-- ARGV[1] most  number  entries to hand out, 1 to 500
--
-- Returns {member, member, ...}: longest waiting first; empty when it is nobody's turn.
-- Retry: harmless; entries whose answer was lost come again 5 seconds later.

local wanted = KEYS[1]

local most = tonumber(ARGV[1])
if not most or most < 1 or most > 500 or most % 1 ~= 0 then
  return redis.error_reply('ERR most: expected a whole number from 1 to 500')
end

local t = redis.call('TIME')
local now_ms = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
local taken = redis.call('ZRANGEBYSCORE', wanted, '-inf', string.format('%.0f', now_ms), 'LIMIT', 0, most)
for _, member in ipairs(taken) do
  redis.call('ZADD', wanted, 'XX', string.format('%.0f', now_ms + 5000), member)
end
return taken
