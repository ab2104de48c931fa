#!lua
-- Puts an order on the list of those whose status is wanted, while the list has room (F3).
--
-- KEYS[1] wanted  zset  product|userhash|order_id|deadline_ms -> its next turn, ms
-- ARGV[1] member  string  the entry
-- ARGV[2] most    number  entries that the list may have
--
-- Returns {'wanted'}: it is on the list, now or before.
-- Returns {'full'}: no room; nothing changed.
-- Retry: harmless; an entry on the list keeps its turn.

local wanted = KEYS[1]
local member = ARGV[1]

local most = tonumber(ARGV[2])
if not most or most < 1 or most > 10000000 or most % 1 ~= 0 then
  return redis.error_reply('ERR most: expected a whole number from 1 to 10000000')
end

if redis.call('ZSCORE', wanted, member) then return { 'wanted' } end
if redis.call('ZCARD', wanted) >= most then return { 'full' } end
local t = redis.call('TIME')
redis.call('ZADD', wanted, string.format('%.0f', tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)), member)
return { 'wanted' }
