-- Begins the other scripts. Keys of an owner begin with one prefix, which has a hash tag: they are on
-- one node of a cluster, so that a script may use them all.
--
--   PREFIX c:ROOT    a conversation, a hash: `t` and the own number of a turn -> its record,
--                    `n` and the digest of a name -> the own number of its turn
--   PREFIX n:DIGEST  a name -> the id of its turn: the root and its own number
local prefix, age = ARGV[1], tonumber(ARGV[2])

-- Notes that a conversation is used. Its names live at least as long. Few uses are written down.
local function use(conversation)
  if redis.call('PTTL', conversation) > age * 0.9 then return end
  for _, field in ipairs(redis.call('HKEYS', conversation)) do
    if string.sub(field, 1, 1) == 'n' then
      redis.call('PEXPIRE', prefix .. 'n:' .. string.sub(field, 2), age)
    end
  end
  redis.call('PEXPIRE', conversation, age)
end

-- The parent's own number in a record, after the checksum.
local function parent_of(record)
  local parent = string.sub(record, 9, 40)
  if string.find(parent, '^%x+$') then return parent end
end
