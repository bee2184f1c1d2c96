-- A text as a value of the type, null where it is none; as the value of a variable, for a cast would cut it to the
-- length of the type. The type is the one that the session found that made the model, wherever it is. What is no
-- fault of the text, such as a server without memory, stays an error.
create or replace function {caster}(input text) returns {type}
language plpgsql stable strict set search_path from current
as $caster$
begin
    declare
        result {type} := input;
    begin
        return result;
    end;
exception
    when data_exception or integrity_constraint_violation or feature_not_supported
        or syntax_error_or_access_rule_violation or invalid_schema_name or program_limit_exceeded then
        return null;
end
$caster$
