#!lua flags=no-writes
-- Tells a product's public state with what changed in its line since a reader last asked, or a slice of the line to begin with (F26).
--
-- KEYS[1] settings  hash    the product's settings
-- KEYS[2] clock     hash    front, near, run_ms, still_ms, stands
-- KEYS[3] waiting   zset    user -> place
-- KEYS[4] away      zset    user -> place
-- KEYS[5] active    zset    user -> expiry of the pass, ms of running time
-- KEYS[6] intents   hash    order_id -> q|digest|bytes
-- KEYS[7] stock     hash    base, seq, held
-- KEYS[8] tally     hash    one count per kind of move
-- KEYS[9] changes   stream  +place, -place, <place (it and all below it), *inc (the line begins anew)
-- ARGV[1] after  string  id of the last change that the reader has; '' when the stream was empty
-- ARGV[2] most   number  changes to tell, 1 to 5000; 0 for a slice
-- ARGV[3] from   number  of a slice: the place behind which it begins
-- ARGV[4] slice  number  of a slice: places to tell, 1 to 5000
--
-- Returns {'absent'}: no settings (R4).
-- Returns {'ok', view, known, last, more, moves}: known is 0 when the stream does not hold the id any more, by its trimming, a loss or
--   a rollback: the reader begins again. moves are separated by commas, last is the id of the last one, more is 1 if there are others.
--   Of a slice, moves are places, more is 1 if it is full, and last is the newest id of all.
-- Foreign: reads stock (owner stock).
-- Retry: harmless; it writes nothing.

local settings, clock, waiting, away = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local active, intents, stock, tally, changes = KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local after = ARGV[1]

local function text(n) return string.format('%.0f', n) end

local function whole(value, name, least, most)
  local n = tonumber(value)
  if not n or n < least or n > most or n % 1 ~= 0 then
    error(redis.error_reply('ERR ' .. name .. ': expected a whole number from ' .. text(least) .. ' to ' .. text(most)))
  end
  return n
end
local most = whole(ARGV[2], 'most', 0, 5000)
local from = whole(ARGV[3], 'from', 0, 9007199254740991)
local slice = whole(ARGV[4], 'slice', 1, 5000)

if redis.call('HEXISTS', settings, 'v') == 0 then return { 'absent' } end

local newest = redis.call('XREVRANGE', changes, '+', '-', 'COUNT', 1)
newest = newest[1] and newest[1][1] or ''

local known, last, more, moves = 1, after, 0, {}
if most == 0 then
  local found = redis.call('ZRANGEBYSCORE', waiting, '(' .. text(from), '+inf', 'WITHSCORES', 'LIMIT', 0, slice)
  for i = 2, #found, 2 do moves[#moves + 1] = text(tonumber(found[i])) end
  last = newest
  if #moves == slice then more = 1 end
elseif after == '' then
  if newest ~= '' then known = 0 end
else
  -- From the reader's own last change on: where that is not the first found, what lies between is not known.
  local found = redis.call('XRANGE', changes, after, '+', 'COUNT', most + 1)
  if not found[1] or found[1][1] ~= after then
    known = 0
  else
    for i = 2, #found do moves[i - 1] = found[i][2][2] end
    last = found[#found][1]
    if last ~= newest then more = 1 end
  end
end

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
  known, last, more, table.concat(moves, ','),
}
