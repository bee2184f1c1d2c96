-- Merges a range of keys from a group of segments. Only the newest document of each key is parsed. Each key is looked
-- up in the key's index (plans.rs of the crate millstream-pg).
merge into {table} as stored
using ({latest}) as latest
on {join}
when matched and latest.doc is null then
    delete
when matched then
    update set doc = latest.doc::pg_catalog.jsonb
when not matched and latest.doc is not null then
    insert ({key}, doc)
    values ({values}, latest.doc::pg_catalog.jsonb)
