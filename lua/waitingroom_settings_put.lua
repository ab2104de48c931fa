#!lua
-- Copies settings of a higher version into a slot that has some (F19).
--
-- KEYS[1] settings  hash  the product's settings
-- ARGV[1]  v               number  version of the settings in the ledger
-- ARGV[2]  state           string  not_open, open, paused or closed
-- ARGV[3]  queue_on        number  1 or 0
-- ARGV[4]  rate            number  admissions per second, may be fractional
-- ARGV[5]  burst           number  admissions at once
-- ARGV[6]  cap             number  most active passes
-- ARGV[7]  pass_ms         number  life of a pass, ms
-- ARGV[8]  order_ttl       number  time for an order from bind to send, ms
-- ARGV[9]  max_len         number  most people in line
-- ARGV[10] inflight_max    number  most orders bound and not judged
-- ARGV[11] units_per_pass  number  usual quantity
-- ARGV[12] oversub         number  units admitted for beyond the stock
-- ARGV[13] max_quantity    number  most units of an order
-- ARGV[14] user_limit      number  most units of a user
-- ARGV[15] reason          string  shown while paused or closed
-- ARGV[16] opened_us       number  first opening, us since 1970; 0 for never
-- ARGV[17] pass_epoch      number  passes of a lower one are revoked
-- ARGV[18] orders_halted   number  1: no new order is bound, and pass time stands still; or 0
-- ARGV[19] absence_ms      number  a waiter not heard for longer is away; 0: nobody becomes away
-- ARGV[20] grace_ms        number  how long somebody away keeps the place
--
-- Returns {'applied'}: they are the slot's now.
-- Returns {'stale'}: the slot has this version or a later one; nothing changed.
-- Returns {'absent'}: no settings (R4); only a restore opens a slot.
-- Retry: harmless; the version is then no longer higher.

local settings = KEYS[1]
local v, state, queue_on, rate = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local burst, cap, pass_ms, order_ttl = ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local max_len, inflight_max, units_per_pass, oversub = ARGV[9], ARGV[10], ARGV[11], ARGV[12]
local max_quantity, user_limit, reason, opened_us = ARGV[13], ARGV[14], ARGV[15], ARGV[16]
local pass_epoch, orders_halted, absence_ms, grace_ms = ARGV[17], ARGV[18], ARGV[19], ARGV[20]

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

local known, known_opening, known_epoch = unpack(redis.call('HMGET', settings, 'v', 'opened_us', 'pass_epoch'))
if not known then return { 'absent' } end
if tonumber(v) <= tonumber(known) then return { 'stale' } end
-- The opening is a constant of the product, and a revocation is never taken back.
if tonumber(known_opening) > 0 then opened_us = known_opening end
if tonumber(known_epoch) > tonumber(pass_epoch) then pass_epoch = known_epoch end
redis.call('HSET', settings, 'v', v, 'opened_us', opened_us, 'pass_epoch', pass_epoch,
  'state', state, 'queue_on', queue_on, 'rate', rate, 'burst', burst, 'cap', cap, 'pass_ms', pass_ms,
  'order_ttl', order_ttl, 'max_len', max_len, 'inflight_max', inflight_max,
  'units_per_pass', units_per_pass, 'oversub', oversub, 'max_quantity', max_quantity,
  'user_limit', user_limit, 'reason', reason,
  'orders_halted', orders_halted, 'absence_ms', absence_ms, 'grace_ms', grace_ms)
return { 'applied' }
