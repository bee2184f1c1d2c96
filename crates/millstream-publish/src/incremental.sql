-- Brings the rows of the changed keys up to date. Both tables are looked up by key (plans.rs of the crate millstream-pg). For each changed key, compares the row shown with the row that the
-- collection gives now, if any. A row that has not changed is skipped. Rows are compared byte for byte, because not
-- every type has an equality.
merge into {part} as shown
using (
    select {changed}, derived.millstream_derived
    from {staged} as changed
    left join (select derived.*, true as millstream_derived from ({rows}) as derived) as derived on {derived_join}
) as fresh
on {join}
when matched and fresh.millstream_derived is null then
    delete
when matched and row({shown})::record operator(pg_catalog.*<>) row({fresh})::record then
    update set {set}
when not matched and fresh.millstream_derived then
    insert (millstream_generation, {columns})
    values ({generation}, {values})
