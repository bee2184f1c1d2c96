-- Makes some segments of group $1 the group $2. The ranges that are merged stay merged.
with merged as (
    insert into {schema}.merged_range (compaction, range)
    select $2, range
    from {schema}.merged_range
    where compaction = $1
)
update {schema}.segment
set compaction = $2
where segment_id = any ($3)
