#!lua
-- Takes an order without a pass, while the queue is off: holds its units and keeps its command until it is judged (U7, F17).
--
-- KEYS[1]  settings  hash  the product's settings
-- KEYS[2]  clock     hash  low, low_from, freed, run_ms, still_ms, stands
-- KEYS[3]  waiting   zset  user -> place
-- KEYS[4]  away      zset  user -> place
-- KEYS[5]  awaytill  zset  user -> end of grace, ms of running time
-- KEYS[6]  active    zset  user -> expiry of the pass, ms of running time
-- KEYS[7]  who       hash  user -> state|place|order_id|t
-- KEYS[8]  whot      zset  user of an ended record -> t, ms
-- KEYS[9]  judged    zset  order_id -> t, ms
-- KEYS[10] intents   hash  order_id -> q|digest|bytes
-- KEYS[11] ordering  zset  order_id -> next attention, ms
-- KEYS[12] stock     hash  base, seq, held
-- KEYS[13] tally     hash  one count per kind of move
-- KEYS[14] bans      hash  user -> until, ms
-- KEYS[15] slots     stream  a slot became free while the capacity held people up
-- KEYS[16] changes   stream  +place, -place, <place (it and all below it)
-- ARGV[1]  user      string  the user's hash, 32 hex digits
-- ARGV[2]  order_id  string  of product, user and Idempotency-Key
-- ARGV[3]  digest    string  of quantity and Idempotency-Key; without |
-- ARGV[4]  quantity  number  units, 1 to 1000
-- ARGV[5]  command   bytes   what will be sent
-- ARGV[6]  hints     string  the channel of hints to the schedulers
-- ARGV[7]  product   string  the product's id, which is the hint
--
-- Returns {'absent'}: no settings (R4); nothing changed.
-- Returns {'bound', '1'}: bound now. {'bound', '0', bytes}: bound before with the same digest; bytes are what to send.
-- Returns {'conflict'}: bound before with another digest.
-- Returns {'judged'}: has its verdict.
-- Returns {'queue_on'}: orders need a pass. {'not_open'}, {'closed'}: the sale has not begun, or is over.
-- Returns {'banned'}: an operator put the user out.
-- Returns {'pending', order_id}: this other order of the user has no verdict yet.
-- Returns {'halted'}: orders are halted. {'sold_out'}: fewer units are free. {'busy'}: stock not loaded, too many in flight, or the
--   places of this incarnation have ended.
-- Foreign: reads stock.base, writes stock.held (owner stock).
-- Retry: harmless; a bound order is answered with its stored bytes and held only once, whatever the queue is by then.

local settings, clock, waiting, away = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local awaytill, active, who, whot = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local judged, intents, ordering, stock = KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local tally, bans = KEYS[13], KEYS[14]
local slots, changes = KEYS[15], KEYS[16]
local hints, product = ARGV[6], ARGV[7]
local user, order_id, digest, command = ARGV[1], ARGV[2], ARGV[3], ARGV[5]

local LOW = 8796093022208 -- 2^43: places are inc * LOW + low
local ATTENTION = 5000    -- ms until the sweeper looks after a send that nobody reported on

local function text(n) return string.format('%.0f', n) end

local quantity = tonumber(ARGV[4])
if not quantity or quantity < 1 or quantity > 1000 or quantity % 1 ~= 0 then
  return redis.error_reply('ERR quantity: expected a whole number from 1 to 1000')
end
if order_id == '' or string.find(order_id .. digest, '|', 1, true) then
  return redis.error_reply('ERR order_id and digest: expected no |')
end

local v, sale, queue_on, inc, opened_us, inflight_max, halted =
  unpack(redis.call('HMGET', settings, 'v', 'state', 'queue_on', 'inc', 'opened_us', 'inflight_max', 'orders_halted'))
if not v then return { 'absent' } end

-- What was bound is answered whatever the settings say by now, as with a pass.
local intent = redis.call('HGET', intents, order_id)
if intent then
  local kept, bytes = string.match(intent, '^%d+|([^|]*)|(.*)$')
  if kept ~= digest then return { 'conflict' } end
  return { 'bound', '0', bytes }
end
if redis.call('ZSCORE', judged, order_id) then return { 'judged' } end

-- Not what the caller believes of the queue counts, but this (F17).
if queue_on == '1' then return { 'queue_on' } end
if sale == 'not_open' or tonumber(opened_us) == 0 then return { 'not_open' } end
if sale == 'closed' then return { 'closed' } end

local t = redis.call('TIME')
local now_us = tonumber(t[1]) * 1000000 + tonumber(t[2])
local now_ms = math.floor(now_us / 1000)
if tonumber(redis.call('HGET', bans, user) or 0) > now_ms then return { 'banned' } end

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
  if place then return 'waiting', tonumber(place), '' end
  place = redis.call('ZSCORE', away, user)
  if place then return 'away', tonumber(place), '' end
  local record = redis.call('HGET', who, user)
  if not record then return 'none', 0, '' end
  local state, at, named = string.match(record, '^(%a+)|(%d+)|([^|]*)|')
  return state, tonumber(at), named
end
local state, place, named = stored()

-- R1
local lease = state == 'active' and tonumber(redis.call('ZSCORE', active, user) or 0) or 0
if lease > 0 and lease <= running then
  redis.call('ZREM', active, user)
  redis.call('HSET', who, user, 'lapsed|' .. text(place) .. '||' .. text(now_ms))
  redis.call('ZADD', whot, text(now_ms), user)
  redis.call('HINCRBY', tally, 'lapsed', 1)
  free_slot(lease + now_ms - running)
  state = 'lapsed'
end

-- One order of a user at a time: no pass bounds how many there are.
if state == 'ordering' then return { 'pending', named } end

if halted == '1' then return { 'halted' } end
local base, held = unpack(redis.call('HMGET', stock, 'base', 'held'))
if not base or redis.call('HLEN', intents) >= tonumber(inflight_max) then return { 'busy' } end
if tonumber(base) - tonumber(held or 0) < quantity then return { 'sold_out' } end

-- Lives: whoever waits, is away or active goes on as this order, at their place. Everybody else begins a life behind everybody who
-- has joined, so that no ticket or pass from before is newer than this order (R2).
if state == 'waiting' then
  redis.call('ZREM', waiting, user)
  changed('-' .. text(place))
elseif state == 'away' then
  redis.call('ZREM', away, user)
  redis.call('ZREM', awaytill, user)
elseif state == 'active' then
  free_slot(now_ms)
  redis.call('ZREM', active, user)
else
  local last, from = unpack(redis.call('HMGET', clock, 'low', 'low_from'))
  local low = math.max(tonumber(last or 0) + 1, now_us - tonumber(from or opened_us))
  local new = tonumber(inc) * LOW + low
  if low >= LOW or new <= place then return { 'busy' } end -- until the advance (F42)
  redis.call('HSET', clock, 'low', text(low))
  redis.call('ZREM', whot, user)
  redis.call('HINCRBY', tally, 'joined', 1)
  place = new
end
redis.call('HSET', who, user, 'ordering|' .. text(place) .. '|' .. order_id .. '|' .. text(now_ms))
redis.call('HSET', intents, order_id, text(quantity) .. '|' .. digest .. '|' .. command)
redis.call('ZADD', ordering, text(now_ms + ATTENTION), order_id)
redis.call('HINCRBY', stock, 'held', text(quantity))
redis.call('HINCRBY', tally, 'bound', 1)
return { 'bound', '1' }
