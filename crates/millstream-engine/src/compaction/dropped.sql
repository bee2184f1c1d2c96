-- How many keys of a range do not have what this transaction has merged: no row that it wrote, or a row although the
-- newest document deletes. A trigger or rule dropped the change, or gave the row another key.
select pg_catalog.count(*)
from ({latest}) as latest
where case
    when latest.doc is null then exists (select from {table} as stored where {join})
    else not exists (
        select
        from {table} as stored
        where {join} and stored.xmin = pg_catalog.pg_current_xact_id()::pg_catalog.xid
    )
end
