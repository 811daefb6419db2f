-- Outbound subscriptions: who is told of which changes, how far each has come, and what could not be delivered.
CREATE TABLE lastunit.webhook (
	id           uuid CONSTRAINT webhook_pkey PRIMARY KEY,
	url          text NOT NULL CONSTRAINT webhook_url_has_1_to_2000_bytes CHECK (octet_length(url) BETWEEN 1 AND 2000),
	secret       text NOT NULL,
	created_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);
