-- Indexes that another index of the same table replaces: pg_get_indexdef shows the same but for the name and the word
-- unique. Kept is the one that a constraint, a partitioned index, a replica identity or a cluster order needs, else the
-- one that is used most. $1: at most so many.
with recursive numbered as (
    select *, count(*) over (partition by indrelid, indkey::text) as number from pg_index where indisvalid
),
alike as materialized (
    -- Only these are worth a definition.
    select
        c.oid,
        c.relname,
        c.relnamespace,
        c.relkind,
        i.indrelid,
        i.indisunique,
        i.indimmediate,
        i.indisprimary or i.indisexclusion or i.indisreplident or i.indisclustered or c.relispartition
            or c.oid in (select conindid from pg_constraint) as needed
    from
        numbered as i
        join pg_class as c on c.oid = i.indexrelid
    where
        i.number > 1
        and c.relkind in ('i', 'I')
        and c.relpersistence <> 't'
        and c.relnamespace not in ('pg_catalog'::regnamespace, 'pg_toast'::regnamespace)
),
tree as (
    select oid as root, oid from alike
    union all
    -- A partitioned index has its pages and counters in those of the partitions.
    select t.root, h.inhrelid from tree as t join pg_inherits as h on h.inhparent = t.oid
),
used as (
    select
        t.root as oid,
        sum(c.relpages)::bigint * current_setting('block_size')::bigint as bytes,
        sum(pg_stat_get_numscans(t.oid))::bigint as scans
    from
        tree as t
        join pg_class as c on c.oid = t.oid
    group by
        t.root
),
defined as (
    select
        a.*,
        u.bytes,
        u.scans,
        d.definition,
        substr(
            d.definition,
            length(format('CREATE %sINDEX %I ON ', case when a.indisunique then 'UNIQUE ' end, a.relname)) + 1
        ) as rest
    from
        alike as a
        join used as u using (oid)
        cross join lateral (select pg_get_indexdef(a.oid) as definition offset 0) as d
    where
        -- It was dropped meanwhile.
        d.definition is not null
),
ranked as (
    select
        *,
        first_value(oid) over same as kept,
        row_number() over same as rank
    from
        defined
    window
        same as (partition by indrelid, rest order by needed desc, indisunique desc, scans desc, oid)
)
select
    format('%I.%I', n.nspname, r.relname) as name,
    r.kept::regclass::text as kept,
    r.indrelid::regclass::text as table_name,
    r.relkind = 'I' as is_partitioned,
    r.definition,
    r.bytes,
    r.scans
from
    ranked as r
    join ranked as k on k.oid = r.kept
    join pg_namespace as n on n.oid = r.relnamespace
where
    r.rank > 1
    and not r.needed
    -- What a unique index refuses, the kept one must refuse as well.
    and (not r.indisunique or k.indisunique and k.indimmediate)
order by
    r.bytes desc, name
limit $1
