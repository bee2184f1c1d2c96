create function the_function() returns trigger language plpgsql as $refuse$
begin
    if not (is_accepted) then
        raise exception 'refused';
    end if;
    return new;
end
$refuse$;
create trigger refuse before insert or update on the_table for each row execute function the_function();
