-- ARGV: prefix, age, digests of names. Returns the index from 1 of the first that leads to a turn, and its id.
for at = 3, #ARGV do
  local id = redis.call('GET', prefix .. 'n:' .. ARGV[at])
  if id then
    local conversation = prefix .. 'c:' .. string.sub(id, 1, 32)
    if redis.call('HEXISTS', conversation, 't' .. string.sub(id, 33)) == 1 then
      use(conversation)
      return { at - 2, id }
    end
  end
end
return false
