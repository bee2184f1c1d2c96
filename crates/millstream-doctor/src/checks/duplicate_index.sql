-- Indexes that another index of the same table replaces: the same definition but for the name. Kept is the one that a
-- constraint, a replica identity or a cluster order needs, else the one that is used most. $1: at most so many.
with defined as (
    select
        i.indexrelid,
        i.indrelid,
        i.indisunique,
        i.indimmediate,
        i.indnullsnotdistinct,
        (i.indrelid, i.indkey::text, i.indclass::text, i.indcollation::text, i.indoption::text, i.indnkeyatts, c.relam,
         coalesce(pg_get_expr(i.indexprs, i.indrelid), ''), coalesce(pg_get_expr(i.indpred, i.indrelid), ''),
         coalesce(c.reloptions::text, ''))::text as definition,
        i.indisprimary or i.indisexclusion or i.indisreplident or i.indisclustered
            or exists (select from pg_constraint as k where k.conindid = i.indexrelid) as needed,
        c.relpages,
        coalesce(s.idx_scan, 0) as scans
    from
        pg_index as i
        join pg_class as c on c.oid = i.indexrelid
        left join pg_stat_user_indexes as s on s.indexrelid = i.indexrelid
    where
        i.indisvalid
        and c.relkind = 'i'
        and not c.relispartition
        and c.relnamespace not in ('pg_catalog'::regnamespace, 'pg_toast'::regnamespace)
),
ranked as (
    select
        *,
        first_value(indexrelid) over same as kept,
        row_number() over same as rank
    from
        defined
    window
        same as (partition by definition order by needed desc, indisunique desc, scans desc, indexrelid)
)
select
    format('%I.%I', n.nspname, c.relname) as name,
    r.kept::regclass::text as kept,
    r.indrelid::regclass::text as table_name,
    pg_get_indexdef(r.indexrelid) as definition,
    r.relpages::bigint * current_setting('block_size')::bigint as bytes,
    r.scans as scans
from
    ranked as r
    join ranked as k on k.indexrelid = r.kept
    join pg_class as c on c.oid = r.indexrelid
    join pg_namespace as n on n.oid = c.relnamespace
where
    r.rank > 1
    and not r.needed
    -- What a unique index refuses, the kept one must refuse as well.
    and (not r.indisunique
        or k.indisunique and k.indimmediate and k.indnullsnotdistinct = r.indnullsnotdistinct)
order by
    bytes desc, name
limit $1
