-- A range of a group. Of each key's documents one is parsed. The range is said of the table too, so that no plan
-- reads rows outside of it.
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
