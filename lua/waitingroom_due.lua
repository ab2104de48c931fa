#!lua
-- Hands out intents that want attention and puts their next attention 5 seconds off (F2).
--
-- KEYS[1] settings  hash  the product's settings
-- KEYS[2] intents   hash  order_id -> q|digest|bytes
-- KEYS[3] ordering  zset  order_id -> next attention, ms; its fraction, in eighths, counts acknowledgements
-- ARGV[1] most  number  intents to hand out, 1 to 100
--
-- Returns {order_id, bytes, order_id, bytes, ...}: earliest attention first; empty when nothing is due or without settings (R4).
-- Retry: harmless; intents whose answer was lost come again 5 seconds later.

local settings, intents, ordering = KEYS[1], KEYS[2], KEYS[3]

local most = tonumber(ARGV[1])
if not most or most < 1 or most > 100 or most % 1 ~= 0 then
  return redis.error_reply('ERR most: expected a whole number from 1 to 100')
end

if redis.call('HEXISTS', settings, 'v') == 0 then return {} end

local t = redis.call('TIME')
local now_ms = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
local due = redis.call('ZRANGEBYSCORE', ordering, '-inf', string.format('%.0f', now_ms), 'WITHSCORES', 'LIMIT', 0, most)
local answer = {}
for i = 1, #due, 2 do
  local id, intent = due[i], redis.call('HGET', intents, due[i])
  if intent then
    redis.call('ZADD', ordering, string.format('%.3f', now_ms + 5000 + tonumber(due[i + 1]) % 1), id)
    answer[#answer + 1] = id
    answer[#answer + 1] = string.match(intent, '^%d+|[^|]*|(.*)$')
  else
    redis.call('ZREM', ordering, id)
  end
end
return answer
