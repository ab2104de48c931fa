#!lua
-- Takes what the ledger decided: its base at event seq, and orders that have their verdict (settle; U8).
--
-- KEYS[1]  stock     hash  base, seq, held
-- KEYS[2]  intents   hash  order_id -> q|digest|bytes
-- KEYS[3]  ordering  zset  order_id -> next attention, ms
-- KEYS[4]  judged    zset  order_id -> t, ms
-- KEYS[5]  waiting   zset  user -> place
-- KEYS[6]  away      zset  user -> place
-- KEYS[7]  awaytill  zset  user -> end of grace, ms of running time
-- KEYS[8]  active    zset  user -> expiry of the pass, ms of running time
-- KEYS[9]  who       hash  user -> state|place|order_id|t
-- KEYS[10] whot      zset  user of an ended record -> t, ms
-- KEYS[11] tally     hash  one count per kind of move
-- KEYS[12] clock     hash  freed, run_ms, still_ms, stands
-- KEYS[13] slots     stream  a slot became free while the capacity held people up
-- KEYS[14] changes   stream  +place, -place, <place (it and all below it)
-- ARGV[1]  base      number  units not sold
-- ARGV[2]  seq       number  the ledger event that base is of
-- ARGV[3]  create    number  1: a slot without base learns it
-- ARGV[4]  remember  number  ms for which ended records and judged orders are kept
-- ARGV[5]  hints     string  the channel of hints to the schedulers
-- ARGV[6]  product   string  the product's id, which is the hint
-- ARGV[7..] judged   triple  order_id, user, place (0 where the command had none); at most 500 triples
--
-- Returns {taken, freed}: taken is 1 if base and seq were set; freed is the units no longer held.
-- Foreign: writes intents, ordering, judged, waiting, away, awaytill, active, who, whot, tally, clock, slots, changes
--   (owner waitingroom).
-- Retry: harmless, and late too; a lower or equal seq sets nothing, an intent is deleted once, a record that says ordered stays.
--   It works without settings (R4 does not hold here): the ledger has judged, whatever Redis knows.

local stock, intents, ordering, judged = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local waiting, away, awaytill, active = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local who, whot, tally, clock = KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local slots, changes = KEYS[13], KEYS[14]
local hints, product = ARGV[5], ARGV[6]

local PRUNE = 100 -- records and orders forgotten per call

local function text(n) return string.format('%.0f', n) end

local function whole(value, name, most)
  local n = tonumber(value)
  if not n or n < 0 or n > most or n % 1 ~= 0 then
    error(redis.error_reply('ERR ' .. name .. ': expected a whole number from 0 to ' .. text(most)))
  end
  return n
end
local base = whole(ARGV[1], 'base', 9007199254740991)
local seq = whole(ARGV[2], 'seq', 9007199254740991)
local create = whole(ARGV[3], 'create', 1)
local remember = whole(ARGV[4], 'remember', 9007199254740991)
if (#ARGV - 6) % 3 ~= 0 or #ARGV > 1506 then
  return redis.error_reply('ERR judged: expected at most 500 triples of order_id, user, place')
end
local places = {}
for i = 7, #ARGV, 3 do places[i] = whole(ARGV[i + 2], 'place', 9007199254740991) end

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

local taken = 0
local known, known_seq = unpack(redis.call('HMGET', stock, 'base', 'seq'))
if known and seq > tonumber(known_seq) or not known and create == 1 then
  redis.call('HSET', stock, 'base', text(base), 'seq', text(seq))
  taken = 1
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
local function stored(user)
  local place = redis.call('ZSCORE', waiting, user)
  if place then return 'waiting', tonumber(place), '' end
  place = redis.call('ZSCORE', away, user)
  if place then return 'away', tonumber(place), '' end
  local record = redis.call('HGET', who, user)
  if not record then return 'none', 0, '' end
  local state, at, order_id = string.match(record, '^(%a+)|(%d+)|([^|]*)|')
  return state, tonumber(at), order_id
end

local function ended(state)
  return state == 'left' or state == 'lapsed' or state == 'evicted' or state == 'called'
end

-- The user's record becomes ordered at this place (R2: only from a place at or below it).
-- Lives: who waited, was away or active ends as ordered; so does who had ended at this very place, or was ordering with this
-- order, whose life was its intent. At a lower place, or without a record, the slot had forgotten this life: it counts as restored.
local function order(user, place, order_id, was_intent)
  local state, at, named = stored(user)
  if place == 0 then
    if named ~= order_id then return end
    place = at
  end
  if at > place or state == 'ordered' and named == order_id then return end
  if state == 'waiting' or state == 'away' or state == 'active' then
    redis.call('ZREM', waiting, user)
    if state == 'waiting' then changed('-' .. text(at)) end
    redis.call('ZREM', away, user)
    redis.call('ZREM', awaytill, user)
    if state == 'active' then
      local lease = tonumber(redis.call('ZSCORE', active, user))
      redis.call('ZREM', active, user)
      free_slot(math.min(lease + now_ms - running, now_ms))
    end
    redis.call('HINCRBY', tally, 'ordered', 1)
  elseif ended(state) and at == place then
    redis.call('HINCRBY', tally, state, -1)
    redis.call('HINCRBY', tally, 'ordered', 1)
  elseif not was_intent then
    redis.call('HINCRBY', tally, 'restored', 1)
    redis.call('HINCRBY', tally, 'ordered', 1)
  end
  redis.call('HSET', who, user, 'ordered|' .. text(place) .. '|' .. order_id .. '|' .. text(now_ms))
  redis.call('ZADD', whot, text(now_ms), user)
end

local freed = 0
for i = 7, #ARGV, 3 do
  local order_id, user = ARGV[i], ARGV[i + 1]
  local intent = redis.call('HGET', intents, order_id)
  if intent then
    local quantity = tonumber(string.match(intent, '^(%d+)|'))
    redis.call('HDEL', intents, order_id)
    redis.call('HINCRBY', stock, 'held', text(-quantity))
    redis.call('HINCRBY', tally, 'ordered', 1)
    freed = freed + quantity
  end
  redis.call('ZREM', ordering, order_id)
  redis.call('ZADD', judged, text(now_ms), order_id)
  order(user, places[i], order_id, intent)
end

-- Forget, in slices, what no ticket can bring back any more.
local horizon = text(now_ms - remember)
for _, order_id in ipairs(redis.call('ZRANGEBYSCORE', judged, '-inf', horizon, 'LIMIT', 0, PRUNE)) do
  redis.call('ZREM', judged, order_id)
end
for _, user in ipairs(redis.call('ZRANGEBYSCORE', whot, '-inf', horizon, 'LIMIT', 0, PRUNE)) do
  redis.call('HDEL', who, user)
  redis.call('ZREM', whot, user)
end
-- Units that nobody could have before: schedulers look at a line that was sold out rarely.
if taken == 1 and (not known or base + freed > tonumber(known)) or taken == 0 and freed > 0 then
  redis.call('PUBLISH', hints, product)
end
return { taken, freed }
