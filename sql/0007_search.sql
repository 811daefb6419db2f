-- Products by what people call them: trigrams over titles and names find a word that is inflected or mistyped.
CREATE EXTENSION IF NOT EXISTS pg_trgm WITH SCHEMA public;
