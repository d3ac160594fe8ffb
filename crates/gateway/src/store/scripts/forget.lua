-- ARGV: prefix, age, digest of a name. Takes it away, with the turns that no name leads to any more.
local name = prefix .. 'n:' .. ARGV[3]
local id = redis.call('GET', name)
if not id then return 0 end
local conversation = prefix .. 'c:' .. string.sub(id, 1, 32)
redis.call('DEL', name)
redis.call('HDEL', conversation, 'n' .. ARGV[3])
local fields, reached = redis.call('HKEYS', conversation), {}
for _, field in ipairs(fields) do
  if string.sub(field, 1, 1) == 'n' then
    local own = redis.call('HGET', conversation, field)
    while own and not reached['t' .. own] do
      reached['t' .. own] = true
      local record = redis.call('HGET', conversation, 't' .. own)
      own = record and parent_of(record)
    end
  end
end
for _, field in ipairs(fields) do
  if string.sub(field, 1, 1) == 't' and not reached[field] then redis.call('HDEL', conversation, field) end
end
return 1
