-- The body of pg_temp.millstream_replay: writes the staged rows, some pages of the staging table at a time, and returns
-- the rows that the server refuses, then one row of counts at place 0.
--
-- Some pages are written as a whole first. If something in them is refused, their rows are written one by one, each in
-- a subtransaction. Every subtransaction that writes takes a transaction id. If a transaction has more than 64, the
-- server keeps their list on disk, where other sessions have to read it until the transaction ends.
#variable_conflict use_column
<<replay>>
declare
    r record;
    page bigint := 0;
    pages bigint := pg_catalog.pg_relation_size('pg_temp.millstream_replay')
        / pg_catalog.current_setting('block_size')::bigint;
    span bigint := 1;
    one_by_one boolean := singly;
    first tid := '(0,0)';
    beyond tid;
    tried bigint;
    -- The rows written together are the first, second, .. of their keys, counted from 0.
    turn integer;
    turn_last integer;
    refused bigint := 0;
    refused_here bigint;
    -- What one statement has done.
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
    -- An expression for the constraint that a document breaks; null if something else may refuse it first.
    breaches text;
    -- The table of a constraint that was broken.
    owner text;
    -- What would be stored of a document, and whether one of its values was cast.
    document jsonb;
    judged boolean;
begin
    inserted := 0;
    updated := 0;
    deleted := 0;
    unchanged := 0;
    lock table {table} in row exclusive mode;
    -- First, because the row of an equal document need not be locked.
    if comparing then
        {unchanged}
    end if;
    {lock}
    if screening then
        {screen}
    end if;
    while page < pages and refused <= refused_max loop
        first := pg_catalog.format('(%s,0)', page)::tid;
        beyond := pg_catalog.format('(%s,0)', page + span)::tid;
        select pg_catalog.count(*), pg_catalog.min(millstream_turn), pg_catalog.max(millstream_turn)
        from pg_temp.millstream_replay
        where ctid >= replay.first and ctid < replay.beyond
        into replay.tried, replay.turn, replay.turn_last;
        if not one_by_one and turn_last - turn < {turns_max} then
            begin
                all_added := 0;
                all_changed := 0;
                all_gone := 0;
                all_held := 0;
                -- A statement must not write a key twice.
                while turn <= turn_last loop
                    added := 0;
                    changed := 0;
                    gone := 0;
                    held := 0;
                    {write_pages}
                    all_added := all_added + added;
                    all_changed := all_changed + changed;
                    all_gone := all_gone + gone;
                    all_held := all_held + held;
                    turn := turn + 1;
                end loop;
                if not may_keep and all_added + all_changed + all_gone + all_held < tried then
                    raise sqlstate '{dropped}';
                end if;
                {kept_out_pages}
                inserted := inserted + all_added;
                updated := updated + all_changed;
                deleted := deleted + all_gone;
                unchanged := unchanged + all_held;
                page := page + span;
                span := least(span * 2, {span_max});
                continue;
            exception when others or assert_failure then
                get stacked diagnostics code = returned_sqlstate;
                if code <> all (refusing) then
                    raise;
                end if;
            end;
        end if;
        refused_here := 0;
        for r in
            select {key}, doc, ctid as millstream_tid, millstream_place, millstream_turn,
                millstream_turn > 0 and {puts} as compared
            from pg_temp.millstream_replay
            where ctid >= replay.first and ctid < replay.beyond
        loop
            exit when refused + refused_here > refused_max;
            {unchanged_one}
            turn := r.millstream_turn;
            begin
                added := 0;
                changed := 0;
                gone := 0;
                held := 0;
                {write_one}
                if not may_keep and added + changed + gone + held < 1 then
                    raise sqlstate '{dropped}';
                end if;
                {kept_out_one}
                inserted := inserted + added;
                updated := updated + changed;
                deleted := deleted + gone;
                unchanged := unchanged + held;
            exception when others or assert_failure then
                get stacked diagnostics
                    code = returned_sqlstate, message = message_text, breach = constraint_name, owner = table_name;
                if code <> all (refusing) then
                    raise;
                end if;
                message := pg_catalog.left(message, {message_max});
                -- A domain's constraint comes without a table.
                breach := case when owner <> '' then nullif(breach, '') end;
                {unfit}
                place := r.millstream_place;
                return next;
                unfit := null;
                refused_here := refused_here + 1;
            end;
        end loop;
        refused := refused + refused_here;
        page := page + span;
        one_by_one := singly or refused_here * {share} > tried;
        span := case when one_by_one then {span_one_by_one} else 1 end;
    end loop;
    place := 0;
    code := null;
    message := null;
    breach := null;
    return next;
end
