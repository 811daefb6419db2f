-- read(guard): the fence alone. The cells are got by an MGET behind it in the same transaction (MULTI … EXEC), so nothing
-- comes between the two. Why not from here: README.md.
--
-- Answers 1.
return 1
