-- Who is out when a webhook is made is noted with it, in one statement: a row for each of 256 ids, not for each SKU, so
-- that a webhook can be made also where a million are sold out.
ALTER TABLE lastunit.webhook_out RENAME TO webhook_out_one_by_one;
ALTER TABLE lastunit.webhook_out_one_by_one DROP CONSTRAINT webhook_out_pkey;
CREATE TABLE lastunit.webhook_out (
	webhook_id uuid NOT NULL CONSTRAINT webhook_out_belongs_to_a_webhook REFERENCES lastunit.webhook ON DELETE CASCADE,
	block      bigint NOT NULL,
	sku_ids    bigint[] NOT NULL,
	CONSTRAINT webhook_out_pkey PRIMARY KEY (webhook_id, block)
);
COMMENT ON COLUMN lastunit.webhook_out.block IS 'of the SKUs whose id / 256 this is';
INSERT INTO lastunit.webhook_out (webhook_id, block, sku_ids)
	SELECT webhook_id, sku_id / 256, array_agg(sku_id) FROM lastunit.webhook_out_one_by_one GROUP BY 1, 2;
DROP TABLE lastunit.webhook_out_one_by_one;
GRANT SELECT, INSERT, UPDATE, DELETE ON lastunit.webhook_out TO lastunit_service;
