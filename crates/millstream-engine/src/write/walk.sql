-- The body of pg_temp.millstream_walk: writes what is staged, some pages of the staging table after the
-- other, and returns what the server refuses, then one row of counts at place 0.
--
-- Pages are tried as a whole first. Where something in them is refused, their documents are tried one by
-- one, each in a subtransaction. Every subtransaction that writes takes a transaction id, so that a batch
-- uses up to one for each document it stores; and of more than 64 in one transaction the server keeps
-- count on disk, which other sessions have to read until it commits.
--
-- Documents that break a CHECK constraint need not all be tried: once the server has refused one for it,
-- the others are found by the constraint's own expression, and get what the server has said of the first.
#variable_conflict use_column
<<walk>>
declare
    r record;
    page bigint := 0;
    pages bigint := pg_catalog.pg_relation_size('pg_temp.millstream_replay')
        / pg_catalog.current_setting('block_size')::bigint;
    span bigint := 1;
    one_by_one boolean := false;
    -- Whether the last row that stands for several documents was refused, so that they come one by one.
    parted boolean := false;
    first tid;
    beyond tid;
    tried bigint;
    refused bigint := 0;
    refused_here bigint;
    -- What a try has done.
    added bigint;
    changed bigint;
    gone bigint;
    held bigint;
    more_added bigint;
    more_changed bigint;
    -- The constraint that a document breaks, as SQL; null where something else may refuse it before.
    breaches text;
    breach text;
    -- Constraints by which the server has refused a document, and what it said.
    known text[] := '{}';
    messages text[] := '{}';
    news text;
begin
    inserted := 0;
    updated := 0;
    deleted := 0;
    unchanged := 0;
    lock table {table} in row exclusive mode;
    {lock}
    while page < pages and refused <= refused_max loop
        first := pg_catalog.format('(%s,0)', page)::tid;
        beyond := pg_catalog.format('(%s,0)', page + span)::tid;
        added := 0;
        changed := 0;
        gone := 0;
        held := 0;
        -- Documents of a parted row that begin a page are only tried one by one.
        if not one_by_one and not parted then
            select pg_catalog.count(*)
            from pg_temp.millstream_replay
            where {pages}
            into walk.tried;
            begin
                -- Statements that write many keys delete first: of one key they must not do both.
                if tombstones and exists (
                    select from pg_temp.millstream_replay where {pages} group by {key} having pg_catalog.count(*) > 1
                ) then
                    raise sqlstate '21000';
                end if;
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
                if not leaves and added + changed + gone + held < tried then
                    raise sqlstate '{dropped}';
                end if;
                inserted := inserted + added;
                updated := updated + changed;
                deleted := deleted + gone;
                unchanged := unchanged + held;
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
        news := null;
        for r in
            select {key}, doc, ctid as millstream_tid, millstream_place, millstream_fold
            from pg_temp.millstream_replay
            where ctid >= walk.first and ctid < walk.beyond
        loop
            continue when r.millstream_fold < 0 and not parted;
            exit when refused + refused_here > refused_max;
            parted := parted and r.millstream_fold < 0;
            tried := tried + 1;
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
                        code = returned_sqlstate, message = message_text, breach = constraint_name;
                    if code = '23505' and fresh then
                        fresh := false;
                        continue;
                    elsif code <> all (refusing) then
                        raise;
                    end if;
                    message := pg_catalog.left(message, {message_max});
                    place := r.millstream_place;
                    return next;
                    refused_here := refused_here + 1;
                    parted := parted or r.millstream_fold > 0;
                    if screening and code = '23514' and r.millstream_fold = 0 and breach <> all (known) then
                        known := known || breach;
                        messages := messages || message;
                        news := breach;
                        first := r.millstream_tid;
                    end if;
                    exit;
                end;
            end loop;
        end loop;
        refused := refused + refused_here;
        page := page + span;
        one_by_one := news is null and refused_here * {share} > tried;
        span := case when one_by_one then {span_one_by_one} else 1 end;
        continue when news is null or refused > refused_max;
        begin
            if breaches is null then
                {breaches}
            end if;
            breach := null;
            if breaches is not null then
                execute pg_catalog.format('select %s from pg_temp.millstream_replay where ctid = $1', breaches)
                into walk.breach
                using first;
            end if;
            -- The constraint must be found where the server has found it.
            screening := breach is not null and breach = news;
            continue when not screening;
            beyond := pg_catalog.format('(%s,0)', page)::tid;
            for r in execute pg_catalog.format(
                'delete from pg_temp.millstream_replay
                 where ctid >= $1 and millstream_fold = 0 and {puts} and %1$s = any ($2)
                 returning millstream_place, %1$s as breach',
                breaches
            ) using beyond, known
            loop
                place := r.millstream_place;
                code := '23514';
                message := messages[pg_catalog.array_position(known, r.breach)];
                refused := refused + 1;
                return next;
            end loop;
        exception when others or assert_failure then
            -- An expression that fails for some other document tells nothing of this one.
            get stacked diagnostics code = returned_sqlstate;
            if code <> all (refusing) then
                raise;
            end if;
            screening := false;
        end;
    end loop;
    place := 0;
    code := null;
    message := null;
    return next;
end
