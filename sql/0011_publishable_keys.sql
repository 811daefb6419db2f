-- Publishable keys: they stand in the pages of a shop for everybody to see, so they may only read, and a browser may use
-- them only on pages of these origins ("https://shop.example"). NULL: a secret key.
ALTER TABLE lastunit.api_key
	ADD COLUMN origins text[],
	ADD CONSTRAINT api_key_only_reads_if_publishable CHECK (origins IS NULL OR scopes = 1),
	ADD CONSTRAINT api_key_has_few_origins CHECK (octet_length(array_to_string(origins, ' ')) <= 500);
