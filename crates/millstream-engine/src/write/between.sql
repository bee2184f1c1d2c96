-- Every row that a key would have while its documents are written one by one, made from those that were tried as they
-- are. The insert tries it. The first document of a key that is not stored was tried already.
with told as (
    select millstream_place - millstream_turn as millstream_group, millstream_turn, {key}, doc
    from pg_temp.millstream_judge
    union all
    select staged.millstream_place, -1, {staged_key}, {first}
    from pg_temp.millstream_judge as staged, {table} as stored
    where staged.millstream_turn = 0
      and {join}
),
folded as (
    select
        {told_key},
        told.doc,
        pg_catalog.count(*) over so_far as millstream_documents,
        {so_far}
    from told
    window so_far as (partition by told.millstream_group order by told.millstream_turn rows unbounded preceding)
)
insert into pg_temp.millstream_judge ({key}, doc)
select {key}, {document}
from folded
where millstream_documents > 1
