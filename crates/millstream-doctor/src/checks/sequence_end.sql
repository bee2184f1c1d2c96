-- Sequences that have used up a share of their numbers, or of those that fit a column that gets them. $1: the share.
-- $2: at most so many.
with sequences as (
    select
        c.oid,
        format('%I.%I', n.nspname, c.relname) as name,
        s.seqtypid::regtype::text as sequence_type,
        s.seqincrement > 0 as rises,
        s.seqmin::numeric as smallest,
        s.seqmax::numeric as largest,
        -- As pg_sequences has it, which fails on temporary sequences of others.
        case
            when c.relpersistence = 'u' and pg_is_in_recovery() then null
            when has_sequence_privilege(c.oid, 'select, usage') then pg_sequence_last_value(c.oid)
        end as last_value
    from
        pg_sequence as s
        join pg_class as c on c.oid = s.seqrelid and c.relpersistence <> 't'
        join pg_namespace as n on n.oid = c.relnamespace
    where
        not s.seqcycle
    offset 0
),
columns as (
    -- The column that owns the sequence, and those whose default is its next number.
    select d.objid as sequence, d.refobjid as table_oid, d.refobjsubid as attnum, true as owns
    from pg_depend as d
    where
        d.classid = 'pg_class'::regclass
        and d.refclassid = 'pg_class'::regclass
        and d.refobjsubid > 0
        and d.deptype in ('a', 'i')
    union
    select d.refobjid, a.adrelid, a.adnum, false
    from
        pg_depend as d
        join pg_class as c on c.oid = d.refobjid and c.relkind = 'S'
        join pg_attrdef as a on a.oid = d.objid
    where
        d.classid = 'pg_attrdef'::regclass
        and d.refclassid = 'pg_class'::regclass
        and pg_get_expr(a.adbin, a.adrelid)
            ~ '^\(*nextval\(''([^'']|'''')+''::regclass\)\)*(::(smallint|integer|bigint))?$'
),
fits as (
    select
        k.sequence,
        t.oid::regclass::text as table_name,
        quote_ident(a.attname) as column_name,
        narrow.top,
        narrow.bottom,
        -- The narrowest column decides. A partition gets its column from the table.
        row_number() over (
            partition by k.sequence order by narrow.top nulls last, t.relispartition, k.owns desc, t.oid, a.attnum
        ) as rank,
        array_agg(
            format('alter table %s alter column %I type bigint', t.oid::regclass, a.attname)
        ) filter (where narrow.top is not null and a.attinhcount = 0) over (partition by k.sequence) as widenings
    from
        columns as k
        join pg_class as t on t.oid = k.table_oid
        join pg_attribute as a on a.attrelid = k.table_oid and a.attnum = k.attnum
        join pg_type as y on y.oid = a.atttypid
        left join (values
            ('int2'::regtype, 32767::numeric, -32768::numeric),
            ('int4'::regtype, 2147483647, -2147483648)
        ) as narrow (type, top, bottom) on narrow.type = coalesce(nullif(y.typbasetype, 0), y.oid)
    where
        t.relpersistence <> 't'
),
shares as (
    select
        s.*,
        f.table_name,
        f.column_name,
        f.widenings,
        -- A sequence that counts down begins at its largest number.
        case when s.rises then s.smallest else s.largest end as first_value,
        case when s.rises then least(s.largest, f.top) else greatest(s.smallest, f.bottom) end as end_value
    from
        sequences as s
        left join fits as f on f.sequence = s.oid and f.rank = 1
    where
        s.last_value is not null
)
select
    name,
    table_name,
    column_name,
    array(select distinct w from unnest(widenings) as w order by w) as widenings,
    sequence_type,
    last_value,
    end_value::bigint as end_value,
    share
from
    shares
    cross join lateral (
        select ((last_value - first_value) / nullif(end_value - first_value, 0))::float8 as share
    ) as used
where
    share >= $1::float8
order by
    share desc, name
limit $2
