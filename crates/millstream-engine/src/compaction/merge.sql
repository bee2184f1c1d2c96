-- Merges a range of keys from a group of segments. Only the newest document of each key is parsed. The range is also a
-- condition on the table, so that no plan reads rows outside of it.
merge into {table} as stored
using ({latest}) as latest
on {join} and {stored_range}
when matched and latest.doc is null then
    delete
when matched then
    update set doc = latest.doc::pg_catalog.jsonb
when not matched and latest.doc is not null then
    insert ({key}, doc)
    values ({values}, latest.doc::pg_catalog.jsonb)
