-- objects.body and changes.body are packed from here on: a byte with the number of the dictionary, and
-- a frame of zstd. A text from before, which begins with a brace, stays until it is written again.
-- A release that does not know this migration cannot read packed texts, and does not open the database.
SELECT 1;
