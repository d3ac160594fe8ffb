-- ARGV: prefix, age, root, own number, parent's own number or '', record, digests of names.
-- Returns whether the parent is known.
local root, own, parent, record = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local conversation = prefix .. 'c:' .. root
if parent ~= '' and redis.call('HEXISTS', conversation, 't' .. parent) == 0 then return 0 end
redis.call('HSETNX', conversation, 't' .. own, record)
for at = 7, #ARGV do
  local name = prefix .. 'n:' .. ARGV[at]
  local old = redis.call('GET', name)
  if old and string.sub(old, 1, 32) ~= root then
    redis.call('HDEL', prefix .. 'c:' .. string.sub(old, 1, 32), 'n' .. ARGV[at])
  end
  redis.call('SET', name, root .. own, 'PX', age)
  redis.call('HSET', conversation, 'n' .. ARGV[at], own)
end
use(conversation)
return 1
