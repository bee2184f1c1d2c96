select
    (select count(distinct doc->>'id') from pg_temp.sent) as keys,
    (
        select count(distinct stored.id)
        from the_table as stored
        join pg_temp.sent as sent on sent.doc->>'id' = stored.id and sent.doc = stored.doc
    ) as found
