-- Keys that were sent, and those of them under which the table holds a document that was sent.
select
    (select pg_catalog.count(distinct doc operator(pg_catalog.->>) 'id') from pg_temp.sent) as keys,
    (
        select pg_catalog.count(distinct stored.id)
        from the_table as stored
        join pg_temp.sent as sent
            on (sent.doc operator(pg_catalog.->>) 'id') = stored.id::text
            and sent.doc operator(pg_catalog.=) stored.doc
    ) as found
