#!lua
-- Tells one caller a second, of all schedulers, to send the command load_stock while the stock is not known (F11).
--
-- KEYS[1] settings  hash  the product's settings
-- KEYS[2] clock     hash  load_asked
-- KEYS[3] stock     hash  base, seq, held
--
-- Returns {'absent'}: no settings (R4).
-- Returns {'ask'}: the caller is to send it.
-- Returns {'no'}: the stock is known, or somebody was told within the last second.
-- Foreign: reads stock.base (owner stock).
-- Retry: harmless; a lost 'ask' is given again a second later.

local settings, clock, stock = KEYS[1], KEYS[2], KEYS[3]

if redis.call('HEXISTS', settings, 'v') == 0 then return { 'absent' } end
if redis.call('HEXISTS', stock, 'base') == 1 then return { 'no' } end
local t = redis.call('TIME')
local now_ms = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
local asked = tonumber(redis.call('HGET', clock, 'load_asked') or 0)
-- An asked time that lies ahead is from a clock that was: it holds nobody up.
if asked <= now_ms and now_ms - asked < 1000 then return { 'no' } end
redis.call('HSET', clock, 'load_asked', string.format('%.0f', now_ms))
return { 'ask' }
