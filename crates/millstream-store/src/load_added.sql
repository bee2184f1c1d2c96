-- The newest load that has added some of these sources, other than the load that is resumed ($6). A load with the same
-- identity comes first. For abandoned loads, count only the sources they reached. Loads whose unlogged collection a
-- crash emptied are skipped: their marker row is missing. If someone else changed the table's persistence, the marker
-- row is unreliable: `rows_tell` makes the caller check whether the table has rows.
select load_id, same, state = 'finished' as finished, receipt::text, mode, same_key, format, transforms,
       adding.come_to as sources, prefix_source, prefix_length, prefix_hash,
       (durability = 'unlogged') <> unlogged as rows_tell,
       exists (
           select
           from {schema}.load n
           where n.table_oid = adding.table_oid
             and n.load_id > adding.load_id
       ) as followed,
       table_oid::pg_catalog.regclass::text as table
from (
    select
        l.*,
        case when resumable then l.sources else l.sources[1 : greatest(l.prefix_source, lanes.last) + 1] end as come_to,
        c.relpersistence = 'u' as unlogged,
        key = ($3::text)::jsonb as same_key,
        mode = $2 and key = ($3::text)::jsonb and format = $4 and sources operator(pg_catalog.=) $5::text[]
            and transforms operator(pg_catalog.=) $7::text[] and state = 'finished' as same
    from {schema}.load l
    join pg_catalog.pg_class c on c.oid = l.table_oid
    cross join lateral (
        select coalesce(pg_catalog.sum(n.read - n.rejected), 0)::bigint as added, pg_catalog.max(n.source) as last
        from {schema}.lane n
        where n.load_id = l.load_id
    ) as lanes
    where table_oid = $1
      and load_id is distinct from $6
      and (resumable or l.read - l.rejected + lanes.added > 0::bigint)
      and pg_catalog.split_part(mode, ':', 1) = pg_catalog.split_part($2, ':', 1)
      and (
          durability <> 'unlogged'
          or c.relpersistence <> 'u'
          or exists (select from {schema}.unlogged_load u where u.load_id = l.load_id)
      )
) as adding
where come_to operator(pg_catalog.&&) $5::text[]
order by same desc, load_id desc
limit 1
