-- Each changed key once: the row shown, and what is derived from the collection now, if anything is. A row that comes
-- out as it was is left alone, byte for byte, for equality is not known of every type.
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
