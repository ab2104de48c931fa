#!lua
-- Writes an order's status if its version is greater than the stored one (F3), and tells whoever listens.
--
-- KEYS[1] status  hash  ver, state, reason, user, product, quantity, digest
-- ARGV[1] ver       number  0 pending, 1 accepted, 2 verdict, 3 cancelled
-- ARGV[2] state     string  pending, accepted, confirmed, rejected or cancelled
-- ARGV[3] reason    string  of a rejection or cancellation, else ''
-- ARGV[4] user      string  the user's hash
-- ARGV[5] product   string  the product's id
-- ARGV[6] quantity  number  units; 0 leaves what a lower version knew
-- ARGV[7] digest    string  of quantity and Idempotency-Key; '' leaves what a lower version knew
-- ARGV[8] ttl       number  ms until the status is forgotten
-- ARGV[9] hints     string  the channel of hints
-- ARGV[10] order    string  the order's id, which is the hint
--
-- Returns {'written'}: it is the status now, and a hint was published. Hints may be lost: whoever waits for one reads again now and then.
-- Returns {'kept'}: the stored one has this version or a greater one; nothing changed.
-- Retry: harmless; the version is then no longer greater.

local status = KEYS[1]
local ver, state, reason, user = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local product, quantity, digest, ttl = ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local hints, order = ARGV[9], ARGV[10]

local function whole(value, name, least, most)
  local n = tonumber(value)
  if not n or n < least or n > most or n % 1 ~= 0 then
    error(redis.error_reply('ERR ' .. name .. ': expected a whole number from ' .. least .. ' to ' .. most))
  end
  return n
end
whole(ver, 'ver', 0, 3)
whole(quantity, 'quantity', 0, 1000000)
whole(ttl, 'ttl', 1, 1e12)

local known, known_quantity, known_digest = unpack(redis.call('HMGET', status, 'ver', 'quantity', 'digest'))
if known and tonumber(known) >= tonumber(ver) then return { 'kept' } end
if quantity == '0' then quantity = known_quantity or '0' end
if digest == '' then digest = known_digest or '' end
redis.call('HSET', status, 'ver', ver, 'state', state, 'reason', reason, 'user', user, 'product', product,
  'quantity', quantity, 'digest', digest)
redis.call('PEXPIRE', status, ttl)
redis.call('PUBLISH', hints, order)
return { 'written' }
