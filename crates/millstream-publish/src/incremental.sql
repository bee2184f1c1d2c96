-- Brings the rows of the changed keys up to date. For each changed key, compares the row shown with the row that the
-- collection gives now, if any. A row that has not changed is skipped. Rows are compared byte for byte, because not
-- every type has an equality.
merge into {part} as shown
using (
    select *
    from {staged} as changed
    left join (select derived.*, true as millstream_derived from ({rows}) as derived) as derived using ({key})
) as fresh
on {join}
when matched and fresh.millstream_derived is null then
    delete
when matched and row({shown})::record operator(pg_catalog.*<>) row({fresh})::record then
    update set {set}
when not matched and fresh.millstream_derived then
    insert (millstream_generation, {columns})
    values ({generation}, {values})
