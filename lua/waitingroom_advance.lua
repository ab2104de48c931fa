#!lua
-- Gives a line that kept its data a new incarnation, so that its next places are above any that were lost (L3, F42).
--
-- KEYS[1] settings   hash    the product's settings
-- KEYS[2] restoring  string  nonce of who advances
-- KEYS[3] clock      hash    low, low_from, front, run, history
-- KEYS[4] changes    stream  *inc: the line begins anew for whoever follows it
-- ARGV[1] nonce  string  of advance_begin
-- ARGV[2] inc    number  the ledger's new line_inc, 1 to 1023
-- ARGV[3] front  number  highest admitted place by the ledger, 0 for none
--
-- Returns {'ok'}: advanced, now or before to this inc.
-- Returns {'held'}: the nonce does not hold it, or the line has this or a higher inc from another; nothing changed.
-- Returns {'absent'}: no settings (R4); the slot must be restored instead.
-- Retry: harmless; an inc is given out once, so the slot's inc tells that it was this call's.

local settings, restoring, clock, changes = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local nonce = ARGV[1]

local function text(n) return string.format('%.0f', n) end

local inc, front = tonumber(ARGV[2]), tonumber(ARGV[3])
if not inc or inc < 1 or inc > 1023 or inc % 1 ~= 0 then
  return redis.error_reply('ERR inc: expected a whole number from 1 to 1023')
end
if not front or front < 0 or front > 9007199254740991 or front % 1 ~= 0 then
  return redis.error_reply('ERR front: expected a whole number from 0 to 9007199254740991')
end

local v, known_inc, opened_us = unpack(redis.call('HMGET', settings, 'v', 'inc', 'opened_us'))
if not v then return { 'absent' } end
if tonumber(known_inc) == inc then return { 'ok' } end
if tonumber(known_inc) > inc or redis.call('GET', restoring) ~= nonce then return { 'held' } end

local t = redis.call('TIME')
local now_us = tonumber(t[1]) * 1000000 + tonumber(t[2])
local from, known_front = unpack(redis.call('HMGET', clock, 'low_from', 'front'))
-- Places of this incarnation begin anew once half of their 43 bits (51 days) are used.
from = tonumber(from or opened_us)
if from > 0 and now_us - from > 4398046511104 then
  redis.call('HSET', clock, 'low_from', text(now_us), 'low', '0')
end
redis.call('HSET', settings, 'inc', text(inc))
redis.call('HSET', clock, 'front', text(math.max(front, tonumber(known_front or 0))),
  'run', string.match(redis.call('INFO', 'server'), 'run_id:(%x+)'),
  'history', string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or '')
redis.call('XADD', changes, 'MAXLEN', '~', 100000, '*', 'move', '*' .. text(inc))
redis.call('DEL', restoring)
return { 'ok' }
