#!lua flags=no-writes
-- Tells what the scheduler watches and persists each second (L3, L4).
--
-- KEYS[1] settings   hash    the product's settings
-- KEYS[2] restoring  string  nonce of who restores or advances
-- KEYS[3] clock      hash    low, front, run, history, run_ms, still_ms, stands, bans_v
-- KEYS[4] active     zset    user -> expiry of the pass, ms of running time
-- KEYS[5] stock      hash    base, seq, held
--
-- Returns {present, restoring, inc, front, active, v, server, moved, places_low, stock_known, now_ms, bans_v}: present is 0 without
--   settings (R4); server names the run of the server that answers and the history that it replicates; moved is 1 when the slot was opened
--   or advanced under another of either. A promotion begins another history, also that of a server which served the slot before.
-- Foreign: reads stock.base (owner stock).
-- Retry: harmless; it writes nothing.

local settings, restoring, clock, active, stock = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

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

local v, inc = unpack(redis.call('HMGET', settings, 'v', 'inc'))
local low, front, run, history, bans_v = unpack(redis.call('HMGET', clock, 'low', 'front', 'run', 'history', 'bans_v'))
local run_now = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local history_now = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or ''

local function flag(condition) return condition and 1 or 0 end
return {
  flag(v), redis.call('EXISTS', restoring), inc, front, redis.call('ZCOUNT', active, '(' .. string.format('%.0f', running), '+inf'), v,
  run_now .. ' ' .. history_now, flag(v and (run ~= run_now or history ~= history_now)),
  flag(tonumber(low or 0) >= 0.9 * 8796093022208), redis.call('HEXISTS', stock, 'base'), string.format('%.0f', now_ms), bans_v,
}
