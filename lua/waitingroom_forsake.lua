#!lua
-- Closes an order id that nobody can account for, before its void is sent (O7): from here on the slot takes it for judged.
--
-- KEYS[1] settings  hash  the product's settings
-- KEYS[2] clock     hash  run_ms, still_ms, stands
-- KEYS[3] waiting   zset  user -> place
-- KEYS[4] away      zset  user -> place
-- KEYS[5] active    zset  user -> expiry of the pass, ms of running time
-- KEYS[6] judged    zset  order_id -> t, ms
-- KEYS[7] intents   hash  order_id -> q|digest|bytes
-- ARGV[1] user      string  the user's hash
-- ARGV[2] order_id  string  the order
--
-- Returns {'bound'}: it has an intent, so a sweeper sends it; nothing changed.
-- Returns {'in_line'}: its user waits, is away or holds a pass, perhaps at the order's own place after a rollback; nothing changed.
-- Returns {'absent'}: no settings (R4), so the line is restored first; nothing changed.
-- Returns {'forsaken'}: no ticket takes its place up any more, and no pass binds it.
-- Retry: harmless; it is forsaken already.

local settings, clock, waiting, away = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local active, judged, intents = KEYS[5], KEYS[6], KEYS[7]
local user, order_id = ARGV[1], ARGV[2]

if redis.call('HEXISTS', settings, 'v') == 0 then return { 'absent' } end
if redis.call('HEXISTS', intents, order_id) == 1 then return { 'bound' } end
if redis.call('ZSCORE', waiting, user) or redis.call('ZSCORE', away, user) then return { 'in_line' } end
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

local lease = tonumber(redis.call('ZSCORE', active, user) or 0)
if lease > running then return { 'in_line' } end
redis.call('ZADD', judged, string.format('%.0f', now_ms), order_id)
return { 'forsaken' }
