-- The body of pg_temp.millstream_walk: writes what is staged, some pages of the staging table after the
-- other, and returns what the server refuses, then one row of counts at place 0.
--
-- Pages are tried as a whole first. Where something in them is refused, their documents are tried one by
-- one, each in a subtransaction. Every subtransaction that writes takes a transaction id, so that a batch
-- uses up to one for each document it stores; and of more than 64 in one transaction the server keeps
-- count on disk, which other sessions have to read until it commits.
--
-- Documents that break a CHECK constraint need not be tried: they are found by the constraint's own
-- expression first, all at once.
#variable_conflict use_column
<<walk>>
declare
    r record;
    page bigint := 0;
    pages bigint := pg_catalog.pg_relation_size('pg_temp.millstream_replay')
        / pg_catalog.current_setting('block_size')::bigint;
    span bigint := 1;
    one_by_one boolean := false;
    -- Whether documents of a refused row that stands for several may be left to be tried one by one, and the
    -- place of the last of them.
    parted boolean := false;
    parted_to integer := 0;
    first tid := '(0,0)';
    beyond tid;
    tried bigint;
    -- The documents at hand are the first, second, .. of their keys, counted from 0.
    turn integer;
    turn_last integer;
    -- Whether some keys begin with a later turn.
    gaps boolean := false;
    refused bigint := 0;
    refused_here bigint;
    -- What a try has done.
    added bigint;
    changed bigint;
    gone bigint;
    held bigint;
    more_added bigint;
    more_changed bigint;
    -- What all statements of a try have done.
    all_added bigint;
    all_changed bigint;
    all_gone bigint;
    all_held bigint;
    -- The constraint that a document breaks, as SQL; null where something else may refuse it before.
    breaches text;
    -- The table of a constraint that was broken.
    owner text;
begin
    inserted := 0;
    updated := 0;
    deleted := 0;
    unchanged := 0;
    lock table {table} in row exclusive mode;
    {lock}
    while page < pages and refused <= refused_max loop
        first := pg_catalog.format('(%s,0)', page)::tid;
        if comparing and not fresh then
            {unchanged}
            comparing := false;
        end if;
        if screening then
            {screen}
            screening := false;
        end if;
        beyond := pg_catalog.format('(%s,0)', page + span)::tid;
        added := 0;
        changed := 0;
        gone := 0;
        held := 0;
        -- Documents of a parted row that begin a page are only tried one by one.
        if not one_by_one and not parted then
            select pg_catalog.count(*), pg_catalog.min(millstream_turn), pg_catalog.max(millstream_turn)
            from pg_temp.millstream_replay
            where ctid >= walk.first and ctid < walk.beyond and millstream_fold >= 0
            into walk.tried, walk.turn, walk.turn_last;
            begin
                all_added := 0;
                all_changed := 0;
                all_gone := 0;
                all_held := 0;
                -- A statement must not write a key twice, nor both delete and store it. Row by row keys are visited in
                -- their order also where the first document of one is gone.
                if turn_last - turn >= {turns_max} or gaps and turn_last > turn then
                    for r in
                        select {key}, doc, ctid as millstream_tid
                        from pg_temp.millstream_replay
                        where ctid >= walk.first and ctid < walk.beyond and millstream_fold >= 0
                    loop
                        added := 0;
                        changed := 0;
                        gone := 0;
                        held := 0;
                        {write_one}
                        all_added := all_added + added;
                        all_changed := all_changed + changed;
                        all_gone := all_gone + gone;
                        all_held := all_held + held;
                    end loop;
                else
                    while turn <= turn_last loop
                        added := 0;
                        changed := 0;
                        gone := 0;
                        held := 0;
                        if fresh then
                            insert into {table} ({key}, doc)
                            select {key}, doc
                            from pg_temp.millstream_replay
                            where {pages}
                            order by {key};
                            get diagnostics added = row_count;
                        else
                            {write_pages}
                        end if;
                        all_added := all_added + added;
                        all_changed := all_changed + changed;
                        all_gone := all_gone + gone;
                        all_held := all_held + held;
                        turn := turn + 1;
                    end loop;
                end if;
                if not leaves and all_added + all_changed + all_gone + all_held < tried then
                    raise sqlstate '{dropped}';
                end if;
                inserted := inserted + all_added;
                updated := updated + all_changed;
                deleted := deleted + all_gone;
                unchanged := unchanged + all_held;
                page := page + span;
                span := least(span * 2, {span_max});
                continue;
            exception when others or assert_failure then
                get stacked diagnostics code = returned_sqlstate;
                if code = '23505' and fresh then
                    fresh := false;
                    continue;
                elsif code <> all (refusing) then
                    raise;
                end if;
            end;
        end if;
        tried := 0;
        refused_here := 0;
        for r in
            select {key}, doc, ctid as millstream_tid, millstream_place, millstream_fold
            from pg_temp.millstream_replay
            where ctid >= walk.first and ctid < walk.beyond
        loop
            continue when r.millstream_fold < 0 and r.millstream_place > parted_to;
            exit when refused + refused_here > refused_max;
            parted := parted and r.millstream_fold < 0;
            tried := tried + 1;
            {unchanged_one}
            loop
                begin
                    added := 0;
                    changed := 0;
                    gone := 0;
                    held := 0;
                    if fresh then
                        insert into {table} ({key}, doc) values ({values}, r.doc);
                        get diagnostics added = row_count;
                    else
                        {write_one}
                    end if;
                    if not leaves and added + changed + gone + held < 1 then
                        raise sqlstate '{dropped}';
                    end if;
                    inserted := inserted + added;
                    updated := updated + changed;
                    deleted := deleted + gone;
                    unchanged := unchanged + held;
                    exit;
                exception when others or assert_failure then
                    get stacked diagnostics
                        code = returned_sqlstate, message = message_text, breach = constraint_name, owner = table_name;
                    if code = '23505' and fresh then
                        fresh := false;
                        continue;
                    elsif code <> all (refusing) then
                        raise;
                    end if;
                    message := pg_catalog.left(message, {message_max});
                    -- A domain's constraint comes without a table.
                    breach := case when owner <> '' then nullif(breach, '') end;
                    place := r.millstream_place;
                    return next;
                    refused_here := refused_here + 1;
                    if r.millstream_fold > parted_max then
                        -- So many writes of one key are not for one transaction.
                        inserted := null;
                        place := 0;
                        return next;
                        return;
                    elsif r.millstream_fold > 0 then
                        parted := true;
                        parted_to := r.millstream_place + r.millstream_fold;
                    end if;
                    exit;
                end;
            end loop;
        end loop;
        refused := refused + refused_here;
        page := page + span;
        one_by_one := refused_here * {share} > tried;
        span := case when one_by_one then {span_one_by_one} else 1 end;
    end loop;
    place := 0;
    code := null;
    message := null;
    breach := null;
    return next;
end
