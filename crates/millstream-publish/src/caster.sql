-- Converts a text to the type; returns null if the text does not fit. It assigns the text to a variable, because a cast
-- would cut it to the length of the type. The type is found with the search path of the session that made the model.
-- Errors that the text did not cause, such as a server without memory, are raised.
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
