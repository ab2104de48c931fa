#!lua
-- Copies bans of the ledger into a line, or lifts them, and puts whoever is banned out of it (U10, F32).
--
-- KEYS[1]  settings   hash    the product's settings
-- KEYS[2]  restoring  string  nonce of who restores
-- KEYS[3]  clock      hash    bans_v, freed, run_ms, still_ms, stands
-- KEYS[4]  waiting    zset    user -> place
-- KEYS[5]  away       zset    user -> place
-- KEYS[6]  awaytill   zset    user -> end of grace, ms of running time
-- KEYS[7]  active     zset    user -> expiry of the pass, ms of running time
-- KEYS[8]  who        hash    user -> state|place|order_id|t
-- KEYS[9]  whot       zset    user of an ended record -> t, ms
-- KEYS[10] tally      hash    one count per kind of move
-- KEYS[11] bans       hash    user -> until, ms
-- KEYS[12] slots      stream  a slot became free while the capacity held people up
-- KEYS[13] changes    stream  +place, -place, <place (it and all below it)
-- ARGV[1]  nonce    string  of restore_begin; '' for a line that is open
-- ARGV[2]  above    number  the ledger's number above which these are all changes
-- ARGV[3]  up_to    number  and up to which
-- ARGV[4]  hints    string  the channel of hints to the schedulers
-- ARGV[5]  product  string  the product's id, which is the hint
-- ARGV[6..] bans    triple  user, until (ms since 1970), the ledger's number of the change; at most 200 triples
--
-- Returns {'ok', evicted}: the line has the bans up to up_to; so many people were put out of it by this call.
-- Returns {'behind'}: the line lacks changes up to above, since it went back to an earlier moment; nothing changed.
-- Returns {'absent'}: no settings (R4), and no nonce; nothing changed.
-- Returns {'held'}: the nonce does not hold the restore; nothing changed.
-- Retry: harmless; changes that the line has already are passed over, by their number. So is what comes late, after a ban was lifted and its
--   person joined again (F25): the place is the one found here, and acted on only while the newest word about its user is a ban.

local settings, restoring, clock, waiting = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local away, awaytill, active, who = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local whot, tally, bans, slots, changes = KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13]
local nonce, hints, product = ARGV[1], ARGV[4], ARGV[5]

local MOST = 200

local function text(n) return string.format('%.0f', n) end

local function whole(value, name)
  local n = tonumber(value)
  if not n or n < 0 or n > 9007199254740991 or n % 1 ~= 0 then
    error(redis.error_reply('ERR ' .. name .. ': expected a whole number from 0 to 9007199254740991'))
  end
  return n
end
local above, up_to = whole(ARGV[2], 'above'), whole(ARGV[3], 'up_to')
if (#ARGV - 5) % 3 ~= 0 or #ARGV - 5 > 3 * MOST then
  return redis.error_reply('ERR bans: expected at most 200 triples of user, until, number')
end
for i = 6, #ARGV, 3 do
  whole(ARGV[i + 1], 'until')
  if whole(ARGV[i + 2], 'number') > up_to then return redis.error_reply('ERR number: expected at most up_to') end
end

local v = redis.call('HGET', settings, 'v')
local has = tonumber(redis.call('HGET', clock, 'bans_v') or 0)
if nonce == '' then
  if not v then return { 'absent' } end
else
  if v or redis.call('GET', restoring) ~= nonce then return { 'held' } end
  redis.call('PEXPIRE', restoring, 5000)
  if above == 0 then has = 0 end -- whatever a slot without settings says, it begins anew
end
if has < above then return { 'behind' } end

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
local function stored(user)
  local place = redis.call('ZSCORE', waiting, user)
  if place then return 'waiting', tonumber(place) end
  place = redis.call('ZSCORE', away, user)
  if place then return 'away', tonumber(place) end
  local record = redis.call('HGET', who, user)
  if not record then return 'none', 0 end
  local state, at = string.match(record, '^(%a+)|(%d+)|')
  return state, tonumber(at)
end

-- Lives: who waited, was away or active ends as evicted. Who had ended unused is evicted from now on, so that life changes its end. An order
-- stays, judged or not, and so does its record; who has no record has none afterwards, and is told by the ban.
local function evict(user)
  local state, place = stored(user)
  if state == 'waiting' then
    redis.call('ZREM', waiting, user)
    changed('-' .. text(place))
  elseif state == 'away' then
    redis.call('ZREM', away, user)
    redis.call('ZREM', awaytill, user)
  elseif state == 'active' then
    local lease = tonumber(redis.call('ZSCORE', active, user) or running)
    redis.call('ZREM', active, user)
    free_slot(math.min(lease + now_ms - running, now_ms))
  elseif state == 'left' or state == 'lapsed' or state == 'called' then
    redis.call('HINCRBY', tally, state, -1)
  else
    return 0
  end
  redis.call('HINCRBY', tally, 'evicted', 1)
  redis.call('HSET', who, user, 'evicted|' .. text(place) .. '||' .. text(now_ms))
  redis.call('ZADD', whot, text(now_ms), user)
  if state == 'waiting' or state == 'away' or state == 'active' then return 1 end
  return 0
end

local evicted = 0
for i = 6, #ARGV, 3 do
  local user, ends = ARGV[i], tonumber(ARGV[i + 1])
  if tonumber(ARGV[i + 2]) > has then
    if ends > now_ms then
      redis.call('HSET', bans, user, text(ends))
      evicted = evicted + evict(user)
    else
      redis.call('HDEL', bans, user)
    end
  end
end
if up_to > has then redis.call('HSET', clock, 'bans_v', text(up_to)) end
return { 'ok', evicted }
