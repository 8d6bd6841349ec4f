-- Starts in SQL that come later.

-- It takes more now; by its defaults every call of the old one is a call of the new one.
drop function if exists saga.start(text, jsonb, text, text);
