#!lua
-- Claims the restore of a slot without settings for 5 seconds (L1).
--
-- KEYS[1] settings   hash    the product's settings
-- KEYS[2] restoring  string  nonce of who restores
-- ARGV[1] nonce  string  new for each attempt
--
-- Returns {'ok'}: the nonce holds it, now or already.
-- Returns {'held'}: another nonce holds it.
-- Returns {'open'}: there are settings; nothing is to be restored.
-- Retry: harmless; the same nonce is answered 'ok' again.

local settings, restoring = KEYS[1], KEYS[2]
local nonce = ARGV[1]

if nonce == '' then return redis.error_reply('ERR nonce: expected a text') end
if redis.call('HEXISTS', settings, 'v') == 1 then return { 'open' } end
if redis.call('SET', restoring, nonce, 'NX', 'PX', 5000) then return { 'ok' } end
if redis.call('GET', restoring) ~= nonce then return { 'held' } end
redis.call('PEXPIRE', restoring, 5000)
return { 'ok' }
