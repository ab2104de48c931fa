#!lua
-- Keeps a claim of restore_begin or advance_begin for 5 seconds more.
--
-- KEYS[1] restoring  string  nonce of who restores or advances
-- ARGV[1] nonce  string  of the claim
--
-- Returns {'ok'}: the nonce holds it for 5 seconds from now.
-- Returns {'held'}: its time ran out, or another nonce holds it.
-- Retry: harmless; the time begins again.

local restoring = KEYS[1]
local nonce = ARGV[1]

if redis.call('GET', restoring) ~= nonce then return { 'held' } end
redis.call('PEXPIRE', restoring, 5000)
return { 'ok' }
