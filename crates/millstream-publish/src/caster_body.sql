-- The body of a cast function.
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
