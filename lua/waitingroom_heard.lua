#!lua
-- Notes that people of the line were heard: who waits near the front counts as present, and who was away is back (U4).
--
-- KEYS[1] settings  hash    the product's settings
-- KEYS[2] clock     hash    near, run_ms, still_ms, stands
-- KEYS[3] waiting   zset    user -> place
-- KEYS[4] away      zset    user -> place
-- KEYS[5] awaytill  zset    user -> end of grace, ms of running time
-- KEYS[6] seen      zset    user near the front -> last heard, ms of running time
-- KEYS[7] tally     hash    one count per kind of move
-- KEYS[8] changes   stream  +place, -place, <place (it and all below it)
-- ARGV[1..] users  string  their hashes, 32 hex digits each; at most 500
--
-- Returns {'absent'}: no settings (R4); nothing changed.
-- Returns {'ok', user, ...}: those who were away and wait again, at their old place.
-- Retry: harmless, and late too; who was heard twice was heard, and who is back is not away.

local settings, clock, waiting, away = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local awaytill, seen, tally, changes = KEYS[5], KEYS[6], KEYS[7], KEYS[8]

local function text(n) return string.format('%.0f', n) end

if #ARGV > 500 then return redis.error_reply('ERR users: expected at most 500') end

local v, absence = unpack(redis.call('HMGET', settings, 'v', 'absence_ms'))
if not v then return { 'absent' } end
absence = tonumber(absence or 0)

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

local near = tonumber(redis.call('HGET', clock, 'near') or 0)
local answer = { 'ok' }
for _, user in ipairs(ARGV) do
  local place = tonumber(redis.call('ZSCORE', waiting, user))
  if not place then
    place = tonumber(redis.call('ZSCORE', away, user))
    if place then
      redis.call('ZREM', away, user)
      redis.call('ZREM', awaytill, user)
      redis.call('ZADD', waiting, text(place), user)
      redis.call('HINCRBY', tally, 'back', 1)
      redis.call('XADD', changes, 'MAXLEN', '~', 100000, '*', 'move', '+' .. text(place))
      answer[#answer + 1] = user
    end
  end
  if place and absence > 0 and place <= near then
    local last = tonumber(redis.call('ZSCORE', seen, user) or 0)
    if running - last >= absence / 3 then redis.call('ZADD', seen, text(running), user) end
  end
end
return answer
