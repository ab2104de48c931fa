#!lua flags=no-writes
-- Tells a product's public state.
--
-- KEYS[1] settings  hash  the product's settings
-- KEYS[2] clock     hash  front, near, run_ms, still_ms, stands
-- KEYS[3] waiting   zset  user -> place
-- KEYS[4] away      zset  user -> place
-- KEYS[5] active    zset  user -> expiry of the pass, ms of running time
-- KEYS[6] intents   hash  order_id -> q|digest|bytes
-- KEYS[7] stock     hash  base, seq, held
-- KEYS[8] tally     hash  one count per kind of move
--
-- Returns {'absent'}: no settings (R4).
-- Returns {'ok', view}: view is {now_ms, settings, stock, clock, tally, waiting, away, active, in flight}.
-- Foreign: reads stock (owner stock).
-- Retry: harmless; it writes nothing.

local settings, clock, waiting, away = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local active, intents, stock, tally = KEYS[5], KEYS[6], KEYS[7], KEYS[8]

local function text(n) return string.format('%.0f', n) end

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
}
