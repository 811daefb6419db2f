-- read(guard, key…): the cells as they stand, in the order of the keys; nil where there is none.
--
-- A key of a wrong type shows as nil too. No harm: cas sets an absent key with NX, so nothing is ever filled there.
return redis.call('MGET', unpack(KEYS, 2))
