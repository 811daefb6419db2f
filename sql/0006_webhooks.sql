-- The change feed reads the ledger in the order (xid, sku_id, version) and goes on behind any entry of it, also in the
-- middle of one transaction that changed a million SKUs. Made of xid alone, the index would read that transaction's
-- entries again for each page.
DROP INDEX lastunit.ledger_by_xid;
CREATE INDEX ledger_by_xid ON lastunit.ledger (xid, sku_id, version);

-- Outbound subscriptions: who is told of which changes, how far each has come, and what could not be delivered. The
-- place in the feed lies beside the ledger it belongs to, so a restored backup brings back both.
CREATE TABLE lastunit.webhook (
	id               uuid CONSTRAINT webhook_pkey PRIMARY KEY,
	created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
	url              text NOT NULL
	                 CONSTRAINT webhook_url_has_1_to_2000_bytes CHECK (octet_length(url) BETWEEN 1 AND 2000),
	events           smallint NOT NULL CONSTRAINT webhook_events_are_known CHECK (events BETWEEN 1 AND 7),
	skus             text[],
	secret           text NOT NULL,
	old_secret       text,
	old_secret_until timestamptz,
	-- How far it has been told.
	identity         bigint NOT NULL,
	xid              xid8 NOT NULL,
	sku_id           bigint NOT NULL,
	version          bigint NOT NULL,
	-- How it is.
	disabled         text,
	failing_since    timestamptz,
	attempts         integer NOT NULL DEFAULT 0,
	next_attempt_at  timestamptz,
	last_error       text,
	delivered_at     timestamptz,
	CONSTRAINT webhook_has_both_or_no_old_secret CHECK ((old_secret IS NULL) = (old_secret_until IS NULL))
);
COMMENT ON COLUMN lastunit.webhook.events IS '1 availability.changed, 2 stock.out, 4 stock.back, added up';
COMMENT ON COLUMN lastunit.webhook.skus IS 'NULL: all';
COMMENT ON COLUMN lastunit.webhook.secret IS 'whsec_…: signing needs it as it is, so whoever reads this table can sign';
COMMENT ON COLUMN lastunit.webhook.disabled IS 'why nothing is sent any more; NULL: it is active';

-- What each has been told is out of stock: a SKU in here has yet to be told of as back.
CREATE TABLE lastunit.webhook_out (
	webhook_id uuid NOT NULL CONSTRAINT webhook_out_belongs_to_a_webhook REFERENCES lastunit.webhook ON DELETE CASCADE,
	sku_id     bigint NOT NULL,
	CONSTRAINT webhook_out_pkey PRIMARY KEY (webhook_id, sku_id)
);

-- What an endpoint refused, until its webhook is deleted or the thousandth after it came.
CREATE TABLE lastunit.webhook_failure (
	webhook_id uuid NOT NULL
	           CONSTRAINT webhook_failure_belongs_to_a_webhook REFERENCES lastunit.webhook ON DELETE CASCADE,
	id         bigint GENERATED ALWAYS AS IDENTITY,
	at         timestamptz NOT NULL DEFAULT clock_timestamp(),
	message    text NOT NULL,
	body       text NOT NULL,
	attempts   integer NOT NULL,
	error      text NOT NULL,
	CONSTRAINT webhook_failure_pkey PRIMARY KEY (webhook_id, id)
);

GRANT SELECT, INSERT, UPDATE, DELETE ON lastunit.webhook, lastunit.webhook_out, lastunit.webhook_failure
	TO lastunit_service;
