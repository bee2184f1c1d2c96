-- Whether some documents have a member, and which members they have. $1: the path to it. $2: the member. $3, $4: at most
-- so many documents and members.
with documents as materialized (
    select {column}::jsonb #> $1::text[] as part
    from {table}{sample}
    limit $3::int8
)
select
    count(*) as documents,
    count(*) filter (where jsonb_exists(part, $2::text)) as with_member,
    array(
        select distinct key
        from
            documents
            cross join lateral jsonb_object_keys(case jsonb_typeof(part) when 'object' then part else '{}' end) as key
        limit $4::int8
    ) as members
from
    documents
where
    jsonb_typeof(part) = 'object'
