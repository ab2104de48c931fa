#!lua
-- Opens a slot without settings, for a new product or after a loss (L2, F8, F14).
--
-- KEYS[1] settings   hash    the product's settings
-- KEYS[2] restoring  string  nonce of who restores
-- KEYS[3] clock      hash    low_from, tokens, refill_ms, front, run, history
-- KEYS[4] changes    stream  *inc: the line begins anew for whoever follows it
-- ARGV[1]  nonce           string  of restore_begin
-- ARGV[2]  inc             number  the ledger's new line_inc, 1 to 1023
-- ARGV[3]  front           number  highest admitted place by the ledger, 0 for none
-- ARGV[4]  ghost           number  passes that may be out there; they count for one pass life
-- ARGV[5]  v               number  version of the settings in the ledger
-- ARGV[6]  state           string  not_open, open, paused or closed
-- ARGV[7]  queue_on        number  1 or 0
-- ARGV[8]  rate            number  admissions per second, may be fractional
-- ARGV[9]  burst           number  admissions at once
-- ARGV[10] cap             number  most active passes
-- ARGV[11] pass_ms         number  life of a pass, ms
-- ARGV[12] order_ttl       number  time for an order from bind to send, ms
-- ARGV[13] max_len         number  most people in line
-- ARGV[14] inflight_max    number  most orders bound and not judged
-- ARGV[15] units_per_pass  number  usual quantity
-- ARGV[16] oversub         number  units admitted for beyond the stock
-- ARGV[17] max_quantity    number  most units of an order
-- ARGV[18] user_limit      number  most units of a user
-- ARGV[19] reason          string  shown while paused or closed
-- ARGV[20] opened_us       number  first opening, us since 1970; 0 for never
-- ARGV[21] pass_epoch      number  passes of a lower one are revoked
-- ARGV[22] orders_halted   number  1: no new order is bound, and pass time stands still; or 0
-- ARGV[23] absence_ms      number  a waiter not heard for longer is away; 0: nobody becomes away
-- ARGV[24] grace_ms        number  how long somebody away keeps the place
--
-- Returns {'ok'}: opened, now or before with this inc.
-- Returns {'held'}: the nonce does not hold the restore; nothing changed.
-- Returns {'open'}: opened with another inc; nothing changed.
-- Retry: harmless; an inc is given out once, so the slot's inc tells that it was this call's.

local settings, restoring, clock, changes = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local nonce, inc, front, ghost = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local v, state, queue_on, rate = ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local burst, cap, pass_ms, order_ttl = ARGV[9], ARGV[10], ARGV[11], ARGV[12]
local max_len, inflight_max, units_per_pass, oversub = ARGV[13], ARGV[14], ARGV[15], ARGV[16]
local max_quantity, user_limit, reason, opened_us = ARGV[17], ARGV[18], ARGV[19], ARGV[20]
local pass_epoch, orders_halted, absence_ms, grace_ms = ARGV[21], ARGV[22], ARGV[23], ARGV[24]

local function whole(value, name)
  local n = tonumber(value)
  if not n or n < 0 or n > 9007199254740991 or n % 1 ~= 0 then
    error(redis.error_reply('ERR ' .. name .. ': expected a whole number from 0 to 9007199254740991'))
  end
  return n
end
for name, value in pairs({
  v = v, queue_on = queue_on, burst = burst, cap = cap, pass_ms = pass_ms, order_ttl = order_ttl,
  max_len = max_len, inflight_max = inflight_max, units_per_pass = units_per_pass, oversub = oversub,
  max_quantity = max_quantity, user_limit = user_limit, opened_us = opened_us, pass_epoch = pass_epoch,
  orders_halted = orders_halted, absence_ms = absence_ms, grace_ms = grace_ms,
}) do whole(value, name) end
local per_second = tonumber(rate)
if not per_second or not (per_second > 0 and per_second <= 100000) then
  return redis.error_reply('ERR rate: expected a number above 0, at most 100000')
end
if state ~= 'not_open' and state ~= 'open' and state ~= 'paused' and state ~= 'closed' then
  return redis.error_reply('ERR state: expected not_open, open, paused or closed')
end

if whole(inc, 'inc') < 1 or whole(inc, 'inc') > 1023 then return redis.error_reply('ERR inc: expected 1 to 1023') end
whole(front, 'front')
whole(ghost, 'ghost')

local known, known_inc = unpack(redis.call('HMGET', settings, 'v', 'inc'))
if known then
  if tonumber(known_inc) == tonumber(inc) then return { 'ok' } end
  return { 'open' }
end
if redis.call('GET', restoring) ~= nonce then return { 'held' } end

local function text(n) return string.format('%.0f', n) end
local t = redis.call('TIME')
local now_us = tonumber(t[1]) * 1000000 + tonumber(t[2])
local now_ms = math.floor(now_us / 1000)

-- Places count the microseconds since the opening; from half of their 43 bits on (51 days) since this incarnation's start (F42).
local from = opened_us
if tonumber(opened_us) > 0 and now_us - tonumber(opened_us) > 4398046511104 then from = text(now_us) end
if tonumber(opened_us) > 0 then redis.call('HSET', clock, 'low_from', from) end
redis.call('HSET', settings, 'v', v, 'opened_us', opened_us, 'pass_epoch', pass_epoch,
  'state', state, 'queue_on', queue_on, 'rate', rate, 'burst', burst, 'cap', cap, 'pass_ms', pass_ms,
  'order_ttl', order_ttl, 'max_len', max_len, 'inflight_max', inflight_max,
  'units_per_pass', units_per_pass, 'oversub', oversub, 'max_quantity', max_quantity,
  'user_limit', user_limit, 'reason', reason,
  'orders_halted', orders_halted, 'absence_ms', absence_ms, 'grace_ms', grace_ms,
  'inc', inc, 'ghost', ghost, 'ghost_until', text(now_ms + tonumber(pass_ms)))
local last = math.max(tonumber(redis.call('HGET', clock, 'front') or 0), tonumber(front))
redis.call('HSET', clock, 'tokens', '0', 'refill_ms', text(now_ms), 'front', text(last),
  'run', string.match(redis.call('INFO', 'server'), 'run_id:(%x+)'),
  'history', string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or '')
redis.call('XADD', changes, 'MAXLEN', '~', 100000, '*', 'move', '*' .. inc)
redis.call('DEL', restoring)
return { 'ok' }
