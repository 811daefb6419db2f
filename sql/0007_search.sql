-- Products by what people call them, in any of their titles and names, inflected or mistyped.
--
-- sku_text.words holds the stems; search_word every stem there is, so that a mistyped word is compared with a vocabulary
-- and not with a million titles. Twins in search_word do no harm, and without a unique index nobody ever waits for
-- another's words: an import of a whole catalogue holds no sale of a single title up.

CREATE EXTENSION IF NOT EXISTS pg_trgm WITH SCHEMA lastunit;
CREATE EXTENSION IF NOT EXISTS fuzzystrmatch WITH SCHEMA lastunit;

-- The configuration `russian` stems Cyrillic words as Russian and ASCII ones as English. Nobody types ё.
CREATE FUNCTION lastunit.search_stems(words text) RETURNS tsvector LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN to_tsvector('pg_catalog.russian'::regconfig, translate(words, 'ёЁ', 'ее'));

CREATE FUNCTION lastunit.search_text(titles jsonb, names text[]) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN concat_ws(' ', (SELECT string_agg(value, ' ') FROM jsonb_each_text(titles)),
	                 (SELECT string_agg(name, ' ') FROM unnest(names) name));

ALTER TABLE lastunit.sku_text ADD COLUMN words tsvector
	GENERATED ALWAYS AS (lastunit.search_stems(lastunit.search_text(titles, names))) STORED;
CREATE INDEX sku_text_by_word ON lastunit.sku_text USING gin (words);

CREATE TABLE lastunit.search_word (word text COLLATE "C" NOT NULL);
CREATE INDEX search_word_by_word ON lastunit.search_word (word);
-- Numbers are never guessed: an article number with one digit changed is another article.
CREATE INDEX search_word_by_trigram ON lastunit.search_word USING gin (word lastunit.gin_trgm_ops)
	WHERE word !~ '[0-9]';

CREATE FUNCTION lastunit.search_words_learn() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
	SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	INSERT INTO lastunit.search_word (word)
	SELECT w.word FROM (SELECT DISTINCT unnest(tsvector_to_array(words)) AS word FROM described) w
	 WHERE NOT EXISTS (SELECT FROM lastunit.search_word known WHERE known.word = w.word);
	RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION lastunit.search_words_learn() FROM PUBLIC;
CREATE TRIGGER sku_text_is_described AFTER INSERT ON lastunit.sku_text
	REFERENCING NEW TABLE AS described FOR EACH STATEMENT EXECUTE FUNCTION lastunit.search_words_learn();
CREATE TRIGGER sku_text_is_described_anew AFTER UPDATE ON lastunit.sku_text
	REFERENCING NEW TABLE AS described FOR EACH STATEMENT EXECUTE FUNCTION lastunit.search_words_learn();

-- What a person is told of a product: what it is called, its figures, and when the next of those who hold it lets go.
CREATE VIEW lastunit.product AS
	SELECT s.id, s.code, s.version, s.on_hand, s.reserved, s.safety_stock, s.tracked, coalesce(t.titles, '{}') AS titles,
	       CASE WHEN s.reserved > 0 THEN
	            (SELECT min(h.expires_at) FROM lastunit.hold h WHERE h.sku_id = s.id) END AS next_release_at
	  FROM lastunit.sku s LEFT JOIN lastunit.sku_text t ON t.sku_id = s.id;
GRANT SELECT ON lastunit.product TO lastunit_service;

-- The best `wanted` products for what somebody said. Every word of it that the catalogue knows, as it is or nearly so,
-- must be in a product; if no product has them all, those with the most of them. Words nobody's product has are talk.
CREATE FUNCTION lastunit.search_products(said text, wanted integer)
	RETURNS SETOF lastunit.product
	LANGUAGE plpgsql STABLE SET search_path = lastunit, pg_catalog, pg_temp
	SET enable_seqscan = off SET jit = off SET gin_fuzzy_search_limit = 0
	SET pg_trgm.similarity_threshold = 0.18 AS $$
DECLARE
	words_max CONSTANT integer := 8;     -- of a sentence; more say no more
	looked_at CONSTANT integer := 100;   -- candidates that are compared
	asked CONSTANT text[] := (tsvector_to_array(search_stems(left(said, 400))))[1:words_max];
	meant text[];
	stem text;
	one tsquery;
	all_of tsquery;
	any_of tsquery;
BEGIN
	FOREACH stem IN ARRAY asked LOOP
		IF EXISTS (SELECT FROM search_word w WHERE w.word = stem) THEN
			meant := ARRAY[stem];
		ELSIF length(stem) < 3 OR stem ~ '[0-9]' THEN
			CONTINUE;
		ELSE
			meant := ARRAY(
				SELECT near.word
				  FROM (SELECT DISTINCT w.word, levenshtein_less_equal(w.word, stem, 2) AS away,
				               similarity(w.word, stem) AS alike
				          FROM search_word w
				         WHERE w.word % stem AND w.word !~ '[0-9]'
				           AND length(w.word) BETWEEN length(stem) - 2 AND length(stem) + 2) near
				 WHERE near.away <= CASE WHEN length(stem) >= 5 THEN 2 ELSE 1 END
				 ORDER BY near.away, near.alike DESC, near.word LIMIT 4);
		END IF;
		-- A stem is taken literally: quotes and backslashes are doubled for the parser of tsquery.
		SELECT string_agg('''' || replace(replace(m, '\', '\\'), '''', '''''') || '''', '|')::tsquery
		  INTO one FROM unnest(meant) m;
		IF one IS NOT NULL THEN
			all_of := coalesce(all_of && one, one);
			any_of := coalesce(any_of || one, one);
		END IF;
	END LOOP;
	IF all_of IS NULL THEN
		RETURN;
	END IF;
	-- A single word may be in half the catalogue: then any of its products are as good as others.
	IF all_of = any_of THEN
		PERFORM set_config('gin_fuzzy_search_limit', '2000', true);
	END IF;
	LOOP
		RETURN QUERY
			SELECT p.*
			  FROM (SELECT c.sku_id, c.titles,
			               (SELECT count(*) FROM unnest(asked) a WHERE a = ANY (tsvector_to_array(c.words))) AS stems
			          FROM (SELECT x.sku_id, x.titles, x.words
			                  FROM sku_text x WHERE x.words @@ all_of LIMIT looked_at) c) t
			  JOIN product p ON p.id = t.sku_id
			 ORDER BY t.stems DESC, p.tracked AND p.on_hand <= p.reserved + p.safety_stock,
			          length(t.titles::text), p.code
			 LIMIT wanted;
		EXIT WHEN FOUND OR all_of = any_of;
		all_of := any_of;
		PERFORM set_config('gin_fuzzy_search_limit', '2000', true);
	END LOOP;
END
$$;
REVOKE ALL ON FUNCTION lastunit.search_products(text, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lastunit.search_products(text, integer) TO lastunit_service;
GRANT SELECT ON lastunit.search_word TO lastunit_service;
