-- The body of a cast function.
begin
    if {has_clock} and pg_catalog.translate(input, '\"', '') collate pg_catalog."C" ~* '{words}' then
        return null;
    end if;
    declare
        result {type} := {value};
    begin
        return result;
    end;
exception
    -- The input function of an extension, or the check of a domain, may raise any error. These are not the text's fault: a
    -- lost connection, the state of the transaction, a deadlock, a lock, a server without memory or disk, or damaged.
    when others or assert_failure then
        if sqlstate ~ '^(08|25|40|53|55|57|58|F0|XX00[12])' then
            raise;
        end if;
        return null;
end
