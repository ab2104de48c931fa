#!lua
-- Turns a pass into an order: holds its units and keeps its command until it is judged (U7; the rules 1 to 5 of 2.3, in order).
--
-- KEYS[1]  settings  hash  the product's settings
-- KEYS[2]  clock     hash  freed, run_ms, still_ms, stands
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
-- ARGV[2]  place     number  of the pass
-- ARGV[3]  order_id  string  of the pass (its jti)
-- ARGV[4]  exp       number  of the pass, ms since 1970
-- ARGV[5]  epoch     number  pass_epoch of the pass
-- ARGV[6]  digest    string  of quantity and Idempotency-Key; without |
-- ARGV[7]  quantity  number  units, 1 to 1000
-- ARGV[8]  command   bytes   what will be sent
-- ARGV[9]  hints     string  the channel of hints to the schedulers
-- ARGV[10] product   string  the product's id, which is the hint
--
-- Returns {'closed'}: no settings (R4), or not open; nothing changed.
-- Returns {'bound', '1'}: bound now. {'bound', '0', bytes}: bound before with the same digest; bytes are what to send.
-- Returns {'conflict'}: bound before with another digest.
-- Returns {'judged'}: has its verdict.
-- Returns {'halted'}: orders are halted; the pass is still good, and its time stands still.
-- Returns {'sold_out'}: fewer units are free; the pass is still good. {'busy'}: stock not loaded or too many in flight; likewise.
-- Returns {'refused', reason} or {'unknown', reason}: the pass is no longer good; unknown where it is of an incarnation before the
--   line's. Reasons: 'lapsed', 'expired', 'left', 'evicted', 'banned', 'revoked', 'superseded'.
-- Foreign: reads stock.base, writes stock.held (owner stock).
-- Retry: harmless; a bound order is answered with its stored bytes and held only once, by rule 1.

local settings, clock, waiting, away = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local awaytill, active, who, whot = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local judged, intents, ordering, stock = KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local tally, bans = KEYS[13], KEYS[14]
local slots, changes = KEYS[15], KEYS[16]
local hints, product = ARGV[9], ARGV[10]
local user, order_id, digest, command = ARGV[1], ARGV[3], ARGV[6], ARGV[8]

local LOW = 8796093022208 -- 2^43: places are inc * LOW + low
local ATTENTION = 5000    -- ms until the sweeper looks after a send that nobody reported on

local function text(n) return string.format('%.0f', n) end

local function whole(value, name, least, most)
  local n = tonumber(value)
  if not n or n < least or n > most or n % 1 ~= 0 then
    error(redis.error_reply('ERR ' .. name .. ': expected a whole number from ' .. text(least) .. ' to ' .. text(most)))
  end
  return n
end
local given = whole(ARGV[2], 'place', 1, 9007199254740991)
local exp = whole(ARGV[4], 'exp', 0, 9007199254740991)
local epoch = whole(ARGV[5], 'epoch', 0, 9007199254740991)
local quantity = whole(ARGV[7], 'quantity', 1, 1000)
if order_id == '' or string.find(order_id .. digest, '|', 1, true) then
  return redis.error_reply('ERR order_id and digest: expected no |')
end

local v, sale, inc, pass_epoch, inflight_max, halted =
  unpack(redis.call('HMGET', settings, 'v', 'state', 'inc', 'pass_epoch', 'inflight_max', 'orders_halted'))
if not v or sale == 'not_open' then return { 'closed' } end

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

-- Where the user is found. Waiting people have no record in who, and whoever comes with a pass has one, as a rule.
local function stored()
  local record = redis.call('HGET', who, user)
  if record then
    local state, at = string.match(record, '^(%a+)|(%d+)|')
    return state, tonumber(at)
  end
  local place = redis.call('ZSCORE', waiting, user)
  if place then return 'waiting', tonumber(place) end
  place = redis.call('ZSCORE', away, user)
  if place then return 'away', tonumber(place) end
  return 'none', 0
end
local state, place = stored()

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

-- Rule 1
local intent = redis.call('HGET', intents, order_id)
if intent then
  local kept, bytes = string.match(intent, '^%d+|([^|]*)|(.*)$')
  if kept ~= digest then return { 'conflict' } end
  return { 'bound', '0', bytes }
end

-- Rule 2
if redis.call('ZSCORE', judged, order_id) then return { 'judged' } end

local banned = tonumber(redis.call('HGET', bans, user) or 0) > now_ms
local revoked = epoch < tonumber(pass_epoch)
local base, held = unpack(redis.call('HMGET', stock, 'base', 'held'))

-- U7. Lives: whoever waits, is away or active goes on as this order; so does who was called at this place. Everybody else begins
-- one, and what they were stays counted as ended, or in flight.
local function bind()
  if halted == '1' then return { 'halted' } end
  if redis.call('HLEN', intents) >= tonumber(inflight_max) then return { 'busy' } end
  if base and tonumber(base) - tonumber(held or 0) < quantity then return { 'sold_out' } end
  if state == 'active' then free_slot(now_ms) end
  if state == 'called' and place == given then
    redis.call('HINCRBY', tally, 'called', -1)
  elseif state ~= 'waiting' and state ~= 'away' and state ~= 'active' then
    redis.call('HINCRBY', tally, 'restored', 1)
  end
  -- A user is in one place only (I6).
  if state == 'active' then
    redis.call('ZREM', active, user)
  elseif state == 'waiting' then
    redis.call('ZREM', waiting, user)
    changed('-' .. text(place))
  elseif state == 'away' then
    redis.call('ZREM', away, user)
    redis.call('ZREM', awaytill, user)
  else
    redis.call('ZREM', whot, user)
  end
  redis.call('HSET', who, user, 'ordering|' .. text(given) .. '|' .. order_id .. '|' .. text(now_ms))
  redis.call('HSET', intents, order_id, text(quantity) .. '|' .. digest .. '|' .. command)
  redis.call('ZADD', ordering, text(now_ms + ATTENTION), order_id)
  redis.call('HINCRBY', stock, 'held', text(quantity))
  redis.call('HINCRBY', tally, 'bound', 1)
  return { 'bound', '1' }
end

if not banned and not revoked then
  -- Rule 3
  if state == 'active' and place == given then
    if not base and halted ~= '1' then return { 'busy' } end
    return bind()
  end
  -- Rule 4: the slot was rolled back or emptied since this pass was issued. It takes no slot of the capacity, and without a known
  -- stock it is bound all the same: the ledger judges.
  if exp > now_ms and (place < given
    or place == given and (state == 'waiting' or state == 'away' or state == 'called')
    or state == 'waiting' and math.floor(place / LOW) > math.floor(given / LOW)) then
    return bind()
  end
end

-- Rule 5
local reason = 'superseded'
if banned then reason = 'banned'
elseif revoked then reason = 'revoked'
elseif state == 'none' or place < given then reason = 'expired'
elseif state == 'lapsed' or state == 'called' then reason = 'lapsed'
elseif state == 'left' then reason = 'left'
elseif state == 'evicted' then reason = 'evicted'
elseif state == 'waiting' and place == given then reason = 'expired' end
local code = 'refused'
if math.floor(given / LOW) < tonumber(inc) then code = 'unknown' end
return { code, reason }
