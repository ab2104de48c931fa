#!lua
-- Claims, for 5 seconds, a slot that kept its data and needs a new incarnation (L3, F42).
--
-- KEYS[1] settings   hash    the product's settings
-- KEYS[2] restoring  string  nonce of who advances
-- ARGV[1] nonce  string  new for each attempt
--
-- Returns {'ok'}: the nonce holds it, now or already.
-- Returns {'held'}: another nonce holds it.
-- Returns {'absent'}: no settings (R4); the slot must be restored instead.
-- Retry: harmless; the same nonce is answered 'ok' again.

local settings, restoring = KEYS[1], KEYS[2]
local nonce = ARGV[1]

if nonce == '' then return redis.error_reply('ERR nonce: expected a text') end
if redis.call('HEXISTS', settings, 'v') == 0 then return { 'absent' } end
if redis.call('SET', restoring, nonce, 'NX', 'PX', 5000) then return { 'ok' } end
if redis.call('GET', restoring) ~= nonce then return { 'held' } end
redis.call('PEXPIRE', restoring, 5000)
return { 'ok' }
