#!lua
-- Puts a user at the end of the line, or tells where they stand; a ticket takes up a forgotten place first (U1, U2, U3, U4).
--
-- KEYS[1]  settings  hash  the product's settings
-- KEYS[2]  clock     hash  low, low_from, front, near, freed, run_ms, still_ms, stands
-- KEYS[3]  waiting   zset  user -> place
-- KEYS[4]  away      zset  user -> place
-- KEYS[5]  awaytill  zset  user -> end of grace, ms of running time
-- KEYS[6]  active    zset  user -> expiry of the pass, ms of running time
-- KEYS[7]  who       hash  user -> state|place|order_id|t
-- KEYS[8]  whot      zset  user of an ended record -> t, ms
-- KEYS[9]  judged    zset  order_id -> t, ms
-- KEYS[10] intents   hash  order_id -> q|digest|bytes
-- KEYS[11] stock     hash  base, seq, held
-- KEYS[12] tally     hash  one count per kind of move
-- KEYS[13] bans      hash  user -> until, ms
-- KEYS[14] slots     stream  a slot became free while the capacity held people up
-- KEYS[15] changes   stream  +place, -place, <place (it and all below it)
-- KEYS[16] seen      zset  user near the front -> last heard, ms of running time
-- ARGV[1]  user        string  the user's hash, 32 hex digits
-- ARGV[2]  claimed     number  place of the user's ticket; 0 without one
-- ARGV[3]  claimed_id  string  order id of that place; '' without one
-- ARGV[4]  hints       string  the channel of hints to the schedulers
-- ARGV[5]  product     string  the product's id, which is the hint
--
-- Returns {'absent'}: no settings (R4); nothing changed.
-- Returns {code, state, place, position, order_id, since_ms, lease_ms, created, called, sale}; code is
--   'ok': the user stands as told; created is 1 if this call made the place, called is 1 if it met U3.
--   'not_open', 'closed', 'queue_off', 'full', 'banned', 'places_ended': no new place; the user stands as told.
--   sale is {state, queue_on, reason, opened_us, pass_epoch, base, waiting}: what an answer about one person needs of the product.
-- Foreign: reads stock (owner stock).
-- Retry: harmless; who is in line is told the same place, and a ticket that was taken up is now the stored place.

local settings, clock, waiting, away = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local awaytill, active, who, whot = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local judged, intents, stock, tally, bans = KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13]
local slots, changes, seen = KEYS[14], KEYS[15], KEYS[16]
local hints, product = ARGV[4], ARGV[5]
local user, claimed_id = ARGV[1], ARGV[3]

local LOW = 8796093022208 -- 2^43: places are inc * LOW + low

local function text(n) return string.format('%.0f', n) end

local function whole(value, name, most)
  local n = tonumber(value)
  if not n or n < 0 or n > most or n % 1 ~= 0 then
    error(redis.error_reply('ERR ' .. name .. ': expected a whole number from 0 to ' .. text(most)))
  end
  return n
end
local claimed = whole(ARGV[2], 'claimed', 9007199254740991)

local v, sale, max_len, opened_us, inc, queue_on, reason, pass_epoch =
  unpack(redis.call('HMGET', settings, 'v', 'state', 'max_len', 'opened_us', 'inc', 'queue_on', 'reason', 'pass_epoch'))
if not v then return { 'absent' } end
opened_us, inc = tonumber(opened_us or 0), tonumber(inc)

local t = redis.call('TIME')
local now_us = tonumber(t[1]) * 1000000 + tonumber(t[2])
local now_ms = math.floor(now_us / 1000)

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

-- U4: heard of again.
if state == 'away' then
  redis.call('ZREM', away, user)
  redis.call('ZREM', awaytill, user)
  redis.call('ZADD', waiting, text(place), user)
  redis.call('HINCRBY', tally, 'back', 1)
  changed('+' .. text(place))
  state = 'waiting'
end

local banned = tonumber(redis.call('HGET', bans, user) or 0) > now_ms
local created, called = 0, 0

if claimed > 0 and not banned then
  local front = tonumber(redis.call('HGET', clock, 'front') or 0)
  local open_claim = claimed > front and not redis.call('ZSCORE', judged, claimed_id)
    and redis.call('HEXISTS', intents, claimed_id) == 0
  if open_claim and place < claimed then
    -- U2: the slot has forgotten this place, by a loss or by a rollback to a lower one.
    if state == 'active' then
      redis.call('ZREM', active, user)
      free_slot(now_ms)
      lease = 0
    elseif state ~= 'waiting' then
      redis.call('HINCRBY', tally, 'restored', 1)
    end
    redis.call('HDEL', who, user)
    redis.call('ZREM', whot, user)
    redis.call('ZADD', waiting, text(claimed), user)
    if state == 'waiting' then changed('-' .. text(place)) end
    changed('+' .. text(claimed))
    -- The counter was rolled back with the slot: it must not give this number out again.
    local low = claimed % LOW
    if claimed - low == inc * LOW and low > tonumber(redis.call('HGET', clock, 'low') or 0) then
      redis.call('HSET', clock, 'low', text(low))
    end
    state, place, order_id, since = 'waiting', claimed, '', 0
  elseif open_claim and state == 'waiting' and math.floor(claimed / LOW) < math.floor(place / LOW) then
    -- U2: joined anew after the loss, then showed the old ticket.
    redis.call('ZADD', waiting, 'LT', text(claimed), user)
    changed('-' .. text(place))
    changed('+' .. text(claimed))
    place = claimed
  elseif state == 'none' then
    -- U3: called before the loss.
    redis.call('HSET', who, user, 'called|' .. text(claimed) .. '||' .. text(now_ms))
    redis.call('ZADD', whot, text(now_ms), user)
    redis.call('HINCRBY', tally, 'restored', 1)
    redis.call('HINCRBY', tally, 'called', 1)
    state, place, order_id, since, called = 'called', claimed, '', now_ms, 1
  end
end

-- U4: near the front it is noted when somebody was last heard, at most once in a third of the limit. Twice or late: still heard.
local absence = tonumber(redis.call('HGET', settings, 'absence_ms') or 0)
local function heard()
  if state ~= 'waiting' or absence == 0 or place > tonumber(redis.call('HGET', clock, 'near') or 0) then return end
  local last = tonumber(redis.call('ZSCORE', seen, user) or 0)
  if running - last >= absence / 3 then redis.call('ZADD', seen, text(running), user) end
end

local function standing(code)
  heard()
  local position, shown = 0, 0
  if lease > 0 then shown = lease + now_ms - running end -- by Redis TIME, as it looks now
  if state == 'waiting' then position = redis.call('ZRANK', waiting, user) + 1 end
  if state == 'none' and banned then state = 'evicted' end
  if state == 'evicted' and not banned then state = 'lapsed' end -- the place is gone, and a new one may be had
  return {
    code, state, text(place), position, order_id, text(since), text(shown), created, called,
    { sale, queue_on, reason, text(opened_us), pass_epoch, redis.call('HGET', stock, 'base'), redis.call('ZCARD', waiting) },
  }
end

-- U1
if state == 'waiting' or state == 'active' or state == 'ordering' then return standing('ok') end
if sale == 'closed' then return standing('closed') end
if sale == 'not_open' or opened_us == 0 then return standing('not_open') end
if queue_on == '0' then return standing('queue_off') end
if banned then return standing('banned') end
local ahead = redis.call('ZCARD', waiting)
if ahead + redis.call('ZCARD', away) >= tonumber(max_len) then return standing('full') end
local last, from = unpack(redis.call('HMGET', clock, 'low', 'low_from'))
local low = math.max(tonumber(last or 0) + 1, now_us - tonumber(from or opened_us))
local new = inc * LOW + low
-- A user's places only rise. Below their last one only after a failover that lost an incarnation, until the advance.
if low >= LOW or new <= place then return standing('places_ended') end
redis.call('HSET', clock, 'low', text(low))
if state ~= 'none' then
  redis.call('HDEL', who, user)
  redis.call('ZREM', whot, user)
end
redis.call('ZADD', waiting, text(new), user)
changed('+' .. text(new))
redis.call('HINCRBY', tally, 'joined', 1)
-- Schedulers look at an empty line rarely.
if ahead == 0 then redis.call('PUBLISH', hints, product) end
state, place, order_id, since, created = 'waiting', new, '', 0, 1
return standing('ok')
