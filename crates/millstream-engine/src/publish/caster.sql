-- A text as a value of the type, null where it is none. The type is the one that the session found that made
-- the model, wherever it is.
create or replace function {caster}(input text) returns {type}
language plpgsql stable strict set search_path from current
as $caster$
begin
    return input::{type};
exception
    when others then
        return null;
end
$caster$
