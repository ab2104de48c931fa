#!lua
-- Gives up one place: who waits, is away or holds an unused pass at exactly this place has left (U9).
--
-- KEYS[1]  settings  hash  the product's settings
-- KEYS[2]  clock     hash  front, freed, run_ms, still_ms, stands
-- KEYS[3]  waiting   zset  user -> place
-- KEYS[4]  away      zset  user -> place
-- KEYS[5]  awaytill  zset  user -> end of grace, ms of running time
-- KEYS[6]  active    zset  user -> expiry of the pass, ms of running time
-- KEYS[7]  who       hash  user -> state|place|order_id|t
-- KEYS[8]  whot      zset  user of an ended record -> t, ms
-- KEYS[9]  stock     hash  base, seq, held
-- KEYS[10] tally     hash  one count per kind of move
-- KEYS[11] slots     stream  a slot became free while the capacity held people up
-- KEYS[12] changes   stream  +place, -place, <place (it and all below it)
-- ARGV[1]  user     string  the user's hash, 32 hex digits
-- ARGV[2]  given    number  the place to give up
-- ARGV[3]  hints    string  the channel of hints to the schedulers
-- ARGV[4]  product  string  the product's id, which is the hint
--
-- Returns {'absent'}: no settings (R4); nothing changed.
-- Returns {'ok', state, place, position, order_id, since_ms, lease_ms, 0, 0, sale}: the user stands as told; state is 'left' with
--   the given place if it was given up, now or before; sale is {state, queue_on, reason, opened_us, pass_epoch, base, waiting}.
-- Foreign: reads stock (owner stock).
-- Retry: harmless; a place that was given up is no longer in any set.

local settings, clock, waiting, away = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local awaytill, active, who, whot = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local stock, tally, slots, changes = KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local hints, product = ARGV[3], ARGV[4]
local user = ARGV[1]

local function text(n) return string.format('%.0f', n) end

local given = tonumber(ARGV[2])
if not given or given < 1 or given > 9007199254740991 or given % 1 ~= 0 then
  return redis.error_reply('ERR given: expected a whole number from 1 to 9007199254740991')
end

local v, sale, opened_us, queue_on, reason, pass_epoch =
  unpack(redis.call('HMGET', settings, 'v', 'state', 'opened_us', 'queue_on', 'reason', 'pass_epoch'))
if not v then return { 'absent' } end

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

-- A slot that becomes free in a line held up by its capacity is noted for the next admission, a hundred at most, and told to the
-- schedulers: to those that listen, and to the stream where one of them made it.
local function free_slot(at)
  local freed = redis.call('HGET', clock, 'freed')
  if not freed then return end
  if #freed < 1400 then redis.call('HSET', clock, 'freed', freed .. text(at) .. ',') end
  redis.call('PUBLISH', hints, product)
  redis.call('XADD', slots, 'NOMKSTREAM', 'MAXLEN', '~', '100', '*', 'at', text(at))
end

-- What the readers of the line follow; the newest hundred thousand moves (F26).
local function changed(move) redis.call('XADD', changes, 'MAXLEN', '~', 100000, '*', 'move', move) end

-- Where the user is found. Waiting people have no record in who.
local function stored()
  local place = redis.call('ZSCORE', waiting, user)
  if place then return 'waiting', tonumber(place), '', 0 end
  place = redis.call('ZSCORE', away, user)
  if place then return 'away', tonumber(place), '', 0 end
  local record = redis.call('HGET', who, user)
  if not record then return 'none', 0, '', 0 end
  local state, at, order_id, since = string.match(record, '^(%a+)|(%d+)|([^|]*)|(%d+)$')
  return state, tonumber(at), order_id, tonumber(since)
end
local state, place, order_id, since = stored()

-- R1
local lease = state == 'active' and tonumber(redis.call('ZSCORE', active, user) or 0) or 0
if lease > 0 and lease <= running then
  redis.call('ZREM', active, user)
  redis.call('HSET', who, user, 'lapsed|' .. text(place) .. '||' .. text(now_ms))
  redis.call('ZADD', whot, text(now_ms), user)
  redis.call('HINCRBY', tally, 'lapsed', 1)
  free_slot(lease + now_ms - running)
  state, order_id, since, lease = 'lapsed', '', now_ms, 0
end

-- U9, for this place only: a late leave must not end the user's next life (F25).
if place == given and (state == 'waiting' or state == 'away' or state == 'active') then
  redis.call('ZREM', waiting, user)
  if state == 'waiting' then changed('-' .. text(place)) end
  redis.call('ZREM', away, user)
  redis.call('ZREM', awaytill, user)
  if state == 'active' then
    redis.call('ZREM', active, user)
    free_slot(now_ms)
  end
  redis.call('HSET', who, user, 'left|' .. text(place) .. '||' .. text(now_ms))
  redis.call('ZADD', whot, text(now_ms), user)
  redis.call('HINCRBY', tally, 'left', 1)
  state, order_id, since, lease = 'left', '', now_ms, 0
end

local position, shown = 0, 0
if lease > 0 then shown = lease + now_ms - running end -- by Redis TIME, as it looks now
if state == 'waiting' then
  position = redis.call('ZRANK', waiting, user) + 1
elseif state == 'away' then
  position = redis.call('ZCOUNT', waiting, '-inf', '(' .. text(place)) + 1
end
return {
  'ok', state, text(place), position, order_id, text(since), text(shown), 0, 0,
  { sale, queue_on, reason, opened_us, pass_epoch, redis.call('HGET', stock, 'base'), redis.call('ZCARD', waiting) },
}
