-- Visits the keys in key order, as the upsert does: rows are staged in that order. The planner can only read the staging
-- table from its beginning and look up each key in the key's index (plans.rs of the crate millstream-pg). Any other join
-- would visit the rows in another order.
merge into {table} as stored
using pg_temp.millstream_stage as staged
on {join}
{matched}
when not matched then
    insert ({key}, doc)
    values ({values}, case when pg_catalog.nextval('pg_temp.millstream_inserted') > 0 then staged.doc end)
