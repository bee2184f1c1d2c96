-- Converts a text to the type; returns null if the text does not fit. It assigns the text to a variable, because a cast
-- would cut it to the length of the type. The type has its schema's name.
create or replace function {caster}(input text) returns {type}
language plpgsql stable strict set search_path = pg_catalog
as {body}
