-- A range of a group.
merge into {table} as stored
using ({latest}) as latest
on {join}
when matched and latest.doc is null then
    delete
when matched then
    update set doc = latest.doc
when not matched and latest.doc is not null then
    insert ({key}, doc)
    values ({values}, latest.doc)
