-- A text as a value of the type, null where it is none.
create or replace function {caster}(input text) returns {type}
language plpgsql stable strict set search_path = pg_catalog, public
as $caster$
begin
    return input::{type};
exception
    when others then
        return null;
end
$caster$
