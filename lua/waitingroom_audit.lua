#!lua flags=no-writes
-- Reads one product's books at one instant, for the auditor (2.7, step 5).
--
-- KEYS[1]  settings  hash  the product's settings
-- KEYS[2]  clock     hash  front, near, run_ms, still_ms, stands
-- KEYS[3]  waiting   zset  user -> place
-- KEYS[4]  away      zset  user -> place
-- KEYS[5]  active    zset  user -> expiry of the pass, ms of running time
-- KEYS[6]  who       hash  user -> state|place|order_id|t
-- KEYS[7]  judged    zset  order_id -> t, ms
-- KEYS[8]  intents   hash  order_id -> q|digest|bytes
-- KEYS[9]  ordering  zset  order_id -> next attention, ms
-- KEYS[10] stock     hash  base, seq, held
-- KEYS[11] tally     hash  one count per kind of move
-- KEYS[12] admits    hash  second -> admissions
-- KEYS[13] awaytill  zset  user -> end of grace, ms of running time
-- ARGV[1]  walk  number  most intents to add up
--
-- Returns {'absent'}: no settings (R4).
-- Returns {'ok', view, held_sum, orderings, active_all, judged, remembered, tally, admits, graces}: held_sum is -1 when there are more
--   than walk intents; admits is second, count, second, count, ...
-- Foreign: reads stock (owner stock).
-- Retry: harmless; it writes nothing. It is bounded by walk and reads one intent at a time.

local settings, clock, waiting, away = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local active, who, judged, intents = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local ordering, stock, tally, admits, awaytill = KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13]

local function text(n) return string.format('%.0f', n) end

local walk = tonumber(ARGV[1])
if not walk or walk < 0 or walk > 1000000 or walk % 1 ~= 0 then
  return redis.error_reply('ERR walk: expected a whole number from 0 to 1000000')
end

if redis.call('HEXISTS', settings, 'v') == 0 then return { 'absent' } end

local t = redis.call('TIME')
local now_ms = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)

-- Running time, by which passes lapse (2.8): no more than ALLOWANCE goes by from one run of admit to the next, and nothing while it stands.
local ALLOWANCE = 5000
local run_ms, still_ms, stands = unpack(redis.call('HMGET', clock, 'run_ms', 'still_ms', 'stands'))
local running = now_ms
if run_ms then
  running = tonumber(run_ms) - tonumber(still_ms)
  if stands == '' then running = running + math.max(0, math.min(now_ms - tonumber(run_ms), ALLOWANCE)) end
end

local sum = -1
if redis.call('HLEN', intents) <= walk then
  sum = 0
  for _, id in ipairs(redis.call('HKEYS', intents)) do
    sum = sum + tonumber(string.match(redis.call('HGET', intents, id), '^(%d+)|'))
  end
end

return {
  'ok',
  {
    text(now_ms),
    redis.call('HMGET', settings, 'v', 'state', 'queue_on', 'rate', 'burst', 'cap', 'pass_ms', 'order_ttl', 'max_len',
      'inflight_max', 'units_per_pass', 'oversub', 'max_quantity', 'user_limit', 'reason', 'opened_us', 'pass_epoch', 'inc',
      'orders_halted', 'absence_ms', 'grace_ms'),
    redis.call('HMGET', stock, 'base', 'seq', 'held'),
    redis.call('HMGET', clock, 'front', 'near'),
    redis.call('HMGET', tally, 'admitted', 'lapsed'),
    redis.call('ZCARD', waiting), redis.call('ZCARD', away),
    redis.call('ZCOUNT', active, '(' .. text(running), '+inf'), redis.call('HLEN', intents),
  },
  text(sum), redis.call('ZCARD', ordering), redis.call('ZCARD', active), redis.call('ZCARD', judged), redis.call('HLEN', who),
  redis.call('HMGET', tally, 'joined', 'restored', 'admitted', 'bound', 'ordered', 'left', 'lapsed', 'evicted', 'called',
    'away', 'back', 'away_lapsed'),
  redis.call('HGETALL', admits), redis.call('ZCARD', awaytill),
}
