-- Who is out when a webhook is made is noted with it, in one statement: a row for each of 256 ids, not for each SKU, so
-- that a webhook can be made also where a million are sold out.
CREATE TABLE lastunit.webhook_out_blocks AS
	SELECT webhook_id, sku_id / 256 AS block, array_agg(sku_id) AS sku_ids FROM lastunit.webhook_out GROUP BY 1, 2;
DROP TABLE lastunit.webhook_out;
ALTER TABLE lastunit.webhook_out_blocks RENAME TO webhook_out;
ALTER TABLE lastunit.webhook_out
	ALTER webhook_id SET NOT NULL,
	ALTER block SET NOT NULL,
	ALTER sku_ids SET NOT NULL,
	ADD CONSTRAINT webhook_out_pkey PRIMARY KEY (webhook_id, block),
	ADD CONSTRAINT webhook_out_belongs_to_a_webhook FOREIGN KEY (webhook_id) REFERENCES lastunit.webhook ON DELETE CASCADE;
COMMENT ON COLUMN lastunit.webhook_out.block IS 'the SKUs whose id / 256 this is';
GRANT SELECT, INSERT, UPDATE, DELETE ON lastunit.webhook_out TO lastunit_service;
