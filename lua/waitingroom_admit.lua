#!lua
-- Frees passes whose time is over (U6), moves who is absent out of the way (U4), forgets what ended long ago, then admits (U5).
--
-- KEYS[1]  settings  hash  the product's settings
-- KEYS[2]  clock     hash  tokens, refill_ms, front, near, freed, run_ms, still_ms, stands
-- KEYS[3]  waiting   zset  user -> place
-- KEYS[4]  active    zset  user -> expiry of the pass, ms of running time
-- KEYS[5]  who       hash  user -> state|place|order_id|t
-- KEYS[6]  whot      zset  user of an ended record -> t, ms
-- KEYS[7]  stock     hash  base, seq, held
-- KEYS[8]  tally     hash  one count per kind of move
-- KEYS[9]  admits    hash  second -> admissions, the last 120 seconds
-- KEYS[10] judged    zset  order_id -> t, ms
-- KEYS[11] changes   stream  +place, -place, <place (it and all below it)
-- KEYS[12] away      zset  user -> place
-- KEYS[13] awaytill  zset  user -> end of grace, ms of running time
-- KEYS[14] seen      zset  user near the front -> last heard, ms of running time
-- ARGV[1] most      number  people to let through, 1 to 500
-- ARGV[2] remember  number  ms for which ended records and judged orders are kept
-- ARGV[3] share     number  of the rate, above 0, at most 1: less while what comes after the line is behind
-- ARGV[4] deaf      number  1: nobody of ours could hear people lately, so the clocks stand until the next run; else 0
--
-- Returns {'absent'}: no settings (R4); nothing changed.
-- Returns {'ok', reason, admitted, lapsed, waiting, active, next_ms, waits, stood_ms, stood_for, away, ended}: reason is '' when it admitted as many as
--   asked for, else 'empty', 'capacity', 'rate', 'lag', 'sold_out', 'stock_unknown', 'away', 'paused', 'queue_off', 'closed' or 'not_open'; 'away'
--   means that more may be absent than one run moves, so nobody was admitted yet; 'lag' is 'rate' with
--   a share below 1; next_ms is the time to the next token for both, and for 'capacity' to the end of
--   the pass that ends first, 0 where there is none or time stands still; waits are ms that a slot had been free before it was given to somebody
--   whom the capacity had held up; stood_ms of the time since the run before did not count for passes, for 'halted', 'deaf', 'held' (every
--   unit left is held) or 'gap' (no run came); away were moved to away and ended lapsed there.
-- Foreign: reads stock (owner stock).
-- Retry: harmless to the bounds, which the script keeps in any number of calls; but a repeat admits others, so its client does not
--   retry by itself (F41).

local settings, clock, waiting, active = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local who, whot, stock, tally, admits, judged = KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local changes, away, awaytill, seen = KEYS[11], KEYS[12], KEYS[13], KEYS[14]

local SWEEP = 100 -- leases lapsed per call; the caller calls again when it is told as many
local PRUNE = 100 -- records and orders forgotten per call
local KEEP = 120  -- seconds of admits
local AWAY = 100  -- people looked at for absence per call
local GRACE = 50  -- graces ended per call
local ZONE = 50000 -- most people near the front, whose absence is watched

local function text(n) return string.format('%.0f', n) end

local most = tonumber(ARGV[1])
if not most or most < 1 or most > 500 or most % 1 ~= 0 then
  return redis.error_reply('ERR most: expected a whole number from 1 to 500')
end

local remember = tonumber(ARGV[2])
if not remember or remember < 0 or remember > 9007199254740991 or remember % 1 ~= 0 then
  return redis.error_reply('ERR remember: expected a whole number from 0 to 9007199254740991')
end

local share = tonumber(ARGV[3])
if not share or not (share > 0 and share <= 1) then
  return redis.error_reply('ERR share: expected a number above 0, at most 1')
end

local deaf = ARGV[4]
if deaf ~= '0' and deaf ~= '1' then return redis.error_reply('ERR deaf: expected 0 or 1') end

local v, sale, rate, burst, cap, pass_ms, units_per_pass, oversub, ghost, ghost_until, halted, absence, grace, queue_on =
  unpack(redis.call('HMGET', settings, 'v', 'state', 'rate', 'burst', 'cap', 'pass_ms', 'units_per_pass', 'oversub',
    'ghost', 'ghost_until', 'orders_halted', 'absence_ms', 'grace_ms', 'queue_on'))
if not v then return { 'absent' } end
-- People need no pass while the queue is off (F17): the line stands as it is, so that it goes on in its order.
if sale == 'open' and queue_on == '0' then sale = 'queue_off' end
absence, grace = tonumber(absence or 0), tonumber(grace or 0)
local full_rate = tonumber(rate)
rate, burst, cap, pass_ms = full_rate * share, tonumber(burst), tonumber(cap), tonumber(pass_ms)
units_per_pass, oversub = tonumber(units_per_pass), tonumber(oversub)

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

local now_text, running_text = text(now_ms), text(running) -- for hundreds of records

-- Whether it stands until the next run. It is decided for the time to come, so it never goes back. Twice, or from several schedulers: each
-- run counts the time since the last one, whosever that was. Crash: no run comes, and it stands once ALLOWANCE is over.
local base, held = unpack(redis.call('HMGET', stock, 'base', 'held'))
base, held = tonumber(base), tonumber(held or 0)
local stood_ms, stood_for = 0, ''
if run_ms then
  stood_ms = math.max(0, now_ms - running - tonumber(still_ms))
  if stood_ms > 0 then stood_for = stands == '' and 'gap' or stands end
end
stands = ''
if halted == '1' then stands = 'halted'
elseif deaf == '1' then stands = 'deaf'
elseif base and base - held <= 0 and held > 0 then stands = 'held' end -- a verdict may give units back (F37)
redis.call('HSET', clock, 'run_ms', text(now_ms), 'still_ms', text(now_ms - running), 'stands', stands)

local tokens, refilled, front, freed, near = unpack(redis.call('HMGET', clock, 'tokens', 'refill_ms', 'front', 'freed', 'near'))

-- The times at which slots became free since an admission ended for want of one; nil when the capacity holds nobody up.
local free = nil
if freed then
  free = {}
  for at in string.gmatch(freed, '(%d+),') do free[#free + 1] = tonumber(at) end
end

-- U6, a slice, earliest expiry first.
local expired = redis.call('ZRANGEBYSCORE', active, '-inf', text(running), 'WITHSCORES', 'LIMIT', 0, SWEEP)
local users = {}
for i = 1, #expired, 2 do
  users[#users + 1] = expired[i]
  if free then free[#free + 1] = tonumber(expired[i + 1]) + now_ms - running end
end
local lapsed = #users
if lapsed > 0 then
  local held_records, records, times = redis.call('HMGET', who, unpack(users)), {}, {}
  for i, user in ipairs(users) do
    local place = string.match(held_records[i] or '', '^active|(%d+)|')
    if place then -- always, unless somebody else wrote here; the audit tells
      records[#records + 1], records[#records + 2] = user, 'lapsed|' .. place .. '||' .. now_text
      times[#times + 1], times[#times + 2] = now_text, user
    end
  end
  redis.call('ZREM', active, unpack(users))
  if #records > 0 then
    redis.call('HSET', who, unpack(records))
    redis.call('ZADD', whot, unpack(times))
  end
  redis.call('HINCRBY', tally, 'lapsed', lapsed)
end
if free then table.sort(free) end

-- Forget, in slices, what no ticket can bring back any more. The decrement does the same; a line that nobody orders from has none.
local horizon = text(now_ms - remember)
local gone_people = redis.call('ZRANGEBYSCORE', whot, '-inf', horizon, 'LIMIT', 0, PRUNE)
if #gone_people > 0 then
  redis.call('HDEL', who, unpack(gone_people))
  redis.call('ZREM', whot, unpack(gone_people))
end
local gone_orders = redis.call('ZRANGEBYSCORE', judged, '-inf', horizon, 'LIMIT', 0, PRUNE)
if #gone_orders > 0 then redis.call('ZREM', judged, unpack(gone_orders)) end

-- U4. Only while the line is open: in a pause nobody's turn comes any nearer. What was heard is written late by up to a third of the limit,
-- so who was heard within it is never moved. Twice: who was moved is no longer in seen. Late: as long as nobody is admitted meanwhile.
local absent, ended, more_absent = 0, 0, false
local function unheard()
  -- Whoever is met for the first time counts as heard now: after a loss, on coming near the front, with the limit just set.
  near = tonumber(near or 0)
  local zone = math.min(ZONE, math.max(100, math.ceil(full_rate * absence / 750))) - redis.call('ZCOUNT', waiting, '-inf', text(near))
  if zone > 0 then
    local met = redis.call('ZRANGEBYSCORE', waiting, '(' .. text(near), '+inf', 'WITHSCORES', 'LIMIT', 0, math.min(zone, AWAY))
    if #met > 0 then
      local now_seen = {}
      for i = 1, #met, 2 do
        now_seen[i], now_seen[i + 1] = running_text, met[i]
      end
      near = tonumber(met[#met])
      redis.call('ZADD', seen, unpack(now_seen))
      redis.call('HSET', clock, 'near', text(near))
    end
  end
  local old = redis.call('ZRANGEBYSCORE', seen, '-inf', text(running - absence * 4 / 3), 'LIMIT', 0, AWAY)
  if #old == 0 then return end
  local gone, places, tills, till = {}, {}, {}, text(running + grace)
  for _, user in ipairs(old) do
    local place = tonumber(redis.call('ZSCORE', waiting, user))
    if place and place <= near then -- else the record is of an earlier life, or of one that no longer waits
      gone[#gone + 1] = user
      places[#places + 1], places[#places + 2] = text(place), user
      tills[#tills + 1], tills[#tills + 2] = till, user
      redis.call('XADD', changes, 'MAXLEN', '~', 100000, '*', 'move', '-' .. text(place))
    end
  end
  redis.call('ZREM', seen, unpack(old))
  if #gone > 0 then
    redis.call('ZREM', waiting, unpack(gone))
    redis.call('ZADD', away, unpack(places))
    redis.call('ZADD', awaytill, unpack(tills))
    redis.call('HINCRBY', tally, 'away', #gone)
  end
  absent, more_absent = #gone, #old == AWAY
end
if sale == 'open' then
  local over = redis.call('ZRANGEBYSCORE', awaytill, '-inf', text(running), 'LIMIT', 0, GRACE)
  local records, times = {}, {}
  for _, user in ipairs(over) do
    local place = tonumber(redis.call('ZSCORE', away, user))
    if place then -- always; the audit tells
      records[#records + 1], records[#records + 2] = user, 'lapsed|' .. text(place) .. '||' .. now_text
      times[#times + 1], times[#times + 2] = now_text, user
      ended = ended + 1
    end
  end
  if #over > 0 then
    redis.call('ZREM', awaytill, unpack(over))
    redis.call('ZREM', away, unpack(over))
  end
  if ended > 0 then
    redis.call('HSET', who, unpack(records))
    redis.call('ZADD', whot, unpack(times))
    redis.call('HINCRBY', tally, 'lapsed', ended)
    redis.call('HINCRBY', tally, 'away_lapsed', ended)
  end
  if absence > 0 then
    unheard()
  elseif near then
    redis.call('HDEL', clock, 'near') -- the next limit begins with everybody heard
  end
elseif sale == 'queue_off' and near then
  redis.call('HDEL', clock, 'near') -- and so does the line that goes on: nobody need poll meanwhile
end

local function answer(reason, admitted, next_ms, waits)
  -- From now on the capacity holds people up, or it no longer does.
  if reason == 'capacity' then
    redis.call('HSET', clock, 'freed', '')
  elseif reason ~= '' and reason ~= 'away' then
    redis.call('HDEL', clock, 'freed')
  elseif free then
    local rest = ''
    for i = admitted + 1, math.min(#free, admitted + 100) do rest = rest .. text(free[i]) .. ',' end
    redis.call('HSET', clock, 'freed', rest)
  end
  return {
    'ok', reason, admitted, lapsed, redis.call('ZCARD', waiting),
    redis.call('ZCOUNT', active, '(' .. text(running), '+inf'), text(next_ms), waits, text(stood_ms), stood_for,
    absent, ended,
  }
end

if sale ~= 'open' then return answer(sale, 0, 0, {}) end
if more_absent then return answer('away', 0, 0, {}) end

-- The bucket. Time that went back gives nothing and takes nothing (F14).
refilled = math.min(tonumber(refilled or now_ms), now_ms)
tokens = math.min(burst, tonumber(tokens or 0) + math.max(0, now_ms - refilled) * rate / 1000)

local reason, n, waits = '', 0, {}
if not base then
  reason = 'stock_unknown'
else
  local holders = redis.call('ZCOUNT', active, '(' .. text(running), '+inf')
  local slots = cap - holders
  if ghost and tonumber(ghost_until) > now_ms then slots = slots - tonumber(ghost) end
  -- One is let through while units are left that no hold and no pass speaks for.
  local units = base - held - units_per_pass * holders + oversub
  local by_stock = math.ceil(units / units_per_pass)
  local by_rate = math.floor(tokens)
  local line = redis.call('ZCARD', waiting)
  n = math.max(0, math.min(most, line, slots, by_stock, by_rate))
  if n < most then
    if n == line then reason = 'empty'
    elseif by_stock <= n then reason = 'sold_out'
    elseif slots <= n then reason = 'capacity'
    elseif share < 1 then reason = 'lag'
    else reason = 'rate' end
  end
end

if n > 0 then
  local first = redis.call('ZRANGE', waiting, 0, n - 1, 'WITHSCORES')
  local leases, records, gone = {}, {}, {}
  local expiry, since = text(running + pass_ms), text(now_ms)
  front = tonumber(front or 0)
  for i = 1, #first, 2 do
    local user, place = first[i], tonumber(first[i + 1])
    leases[#leases + 1] = expiry
    leases[#leases + 1] = user
    records[#records + 1] = user
    records[#records + 1] = 'active|' .. text(place) .. '||' .. since
    gone[#gone + 1] = user
    front = math.max(front, place)
  end
  redis.call('ZREM', waiting, unpack(gone))
  -- They were the first, so one entry says it for all of them. The newest hundred thousand moves are kept (F26).
  redis.call('XADD', changes, 'MAXLEN', '~', 100000, '*', 'move', '<' .. text(tonumber(first[#first])))
  if near then redis.call('ZREM', seen, unpack(gone)) end
  redis.call('ZADD', active, unpack(leases))
  redis.call('HSET', who, unpack(records))
  redis.call('HSET', clock, 'front', text(front))
  redis.call('HINCRBY', tally, 'admitted', n)
  local second = math.floor(now_ms / 1000)
  if redis.call('HINCRBY', admits, text(second), n) == n then
    for _, old in ipairs(redis.call('HKEYS', admits)) do
      if tonumber(old) <= second - KEEP then redis.call('HDEL', admits, old) end
    end
  end
  if free then
    for i = 1, math.min(n, #free) do waits[i] = text(math.max(0, now_ms - free[i])) end
  end
end
tokens = tokens - n
redis.call('HSET', clock, 'tokens', string.format('%.9f', tokens), 'refill_ms', text(now_ms))

local next_ms = 0
if reason == 'rate' or reason == 'lag' then
  next_ms = math.ceil((math.floor(tokens) + 1 - tokens) * 1000 / rate)
elseif reason == 'capacity' and stands == '' then
  local first = redis.call('ZRANGE', active, 0, 0, 'WITHSCORES')[2]
  if first then next_ms = math.max(1, tonumber(first) - running) end
end
return answer(reason, n, next_ms, waits)
