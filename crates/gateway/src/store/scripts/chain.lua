-- ARGV: prefix, age, root, own number. Returns own numbers and records from that turn to the first.
local conversation, own = prefix .. 'c:' .. ARGV[3], ARGV[4]
local chain, most = {}, 2 * redis.call('HLEN', conversation)
while own do
  local record = redis.call('HGET', conversation, 't' .. own)
  if not record and #chain == 0 then return {} end
  if not record or #chain >= most then return redis.error_reply('DAMAGED a turn has no parent') end
  chain[#chain + 1] = own
  chain[#chain + 1] = record
  own = parent_of(record)
end
use(conversation)
return chain
