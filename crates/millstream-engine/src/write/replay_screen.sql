{breaches}
begin
    if breaches is not null then
        for r in execute pg_catalog.format(
            'delete from pg_temp.millstream_replay
             where {puts} and %1$s is not null
             returning millstream_place, %1$s as breach',
            breaches
        ) loop
            place := r.millstream_place;
            code := '23514';
            message := pg_catalog.format('breaks check constraint "%s"', r.breach);
            breach := r.breach;
            refused := refused + 1;
            return next;
            exit when refused > refused_max;
        end loop;
        breach := null;
    end if;
exception when others or assert_failure then
    -- The expression failed for a document. It says nothing about the others, so all are tried.
    get stacked diagnostics code = returned_sqlstate;
    if code <> all (refusing) then
        raise;
    end if;
end;
