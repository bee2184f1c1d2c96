-- Visits the keys in the same order as the upsert: that in which they were staged. The lane's settings
-- leave the planner nothing but to read the staging table from its beginning and to look every key up in
-- the key's index; any other join would visit rows in another order.
merge into {table} as stored
using pg_temp.millstream_stage as staged
on {join}
{matched}
when not matched then
    insert ({key}, doc)
    values ({values}, case when pg_catalog.nextval('pg_temp.millstream_inserted') > 0 then staged.doc end)
