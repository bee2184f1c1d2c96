-- Sequences that have used up a share of their numbers, or of those that fit a column that gets them. $1: the share.
-- $2: at most so many.
with columns as (
    -- The column that owns the sequence, and those whose default is its next number.
    select d.objid as sequence, d.refobjid as table_oid, d.refobjsubid::int2 as attnum, true as owns
    from pg_depend as d join pg_sequence as s on s.seqrelid = d.objid
    where
        d.classid = 'pg_class'::regclass
        and d.refclassid = 'pg_class'::regclass
        and d.refobjsubid > 0
        and d.deptype in ('a', 'i')
    union all
    select d.sequence, d.adrelid, d.adnum, false
    from
        (
            select d.refobjid as sequence, a.adrelid, a.adnum, a.adbin
            from
                pg_depend as d
                join pg_sequence as s on s.seqrelid = d.refobjid
                join pg_attrdef as a on a.oid = d.objid
            where
                d.classid = 'pg_attrdef'::regclass
                and d.refclassid = 'pg_class'::regclass
                and not exists (
                    select from pg_depend as o
                    where
                        o.classid = 'pg_class'::regclass
                        and o.objid = d.refobjid
                        and o.refclassid = 'pg_class'::regclass
                        and o.refobjid = a.adrelid
                        and o.refobjsubid = a.adnum
                )
            -- The text of a default is made only where it matters.
            offset 0
        ) as d
    where
        pg_get_expr(d.adbin, d.adrelid)
            ~ '^\(*nextval\(''([^'']|'''')+''::regclass\)\)*(::(smallint|integer|bigint))?$'
),
fits as (
    select
        k.sequence,
        k.table_oid,
        a.attname,
        narrow.top,
        narrow.bottom,
        narrow.top is not null and a.attinhcount = 0 as can_widen,
        -- The narrowest column decides. A partition gets its column from the table.
        row_number() over (
            partition by k.sequence order by narrow.top nulls last, t.relispartition, k.owns desc, t.oid, a.attnum
        ) as rank
    from
        columns as k
        join pg_class as t on t.oid = k.table_oid
        cross join lateral (
            select c.attname, c.attnum, c.atttypid, c.attinhcount
            from pg_attribute as c
            where c.attrelid = k.table_oid and c.attnum = k.attnum
            -- One look-up for both numbers.
            offset 0
        ) as a
        left join (values
            ('int2'::regtype, 32767::numeric, -32768::numeric),
            ('int4'::regtype, 2147483647, -2147483648)
        ) as narrow (type, top, bottom) on narrow.type = case
            when a.atttypid = 'int8'::regtype then a.atttypid
            else (select coalesce(nullif(y.typbasetype, 0), y.oid) from pg_type as y where y.oid = a.atttypid)
        end
    where
        t.relkind in ('r', 'p', 'f')
        and t.relpersistence <> 't'
),
sequences as (
    select
        c.oid,
        c.relname,
        c.relnamespace,
        s.seqtypid,
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
        join pg_class as c on c.oid = s.seqrelid and c.relkind = 'S' and c.relpersistence <> 't'
    where
        not s.seqcycle
        -- The last value is in a file of its own. At a million numbers a second, more than these last for 30 years.
        and (
            s.seqmax::float8 - s.seqmin < 1e15 * abs(s.seqincrement::float8)
            or s.seqrelid in (select f.sequence from fits as f where f.top is not null)
        )
    offset 0
),
shares as (
    select
        s.*,
        f.table_oid,
        f.attname,
        -- A sequence that counts down begins at its largest number.
        case when s.rises then s.smallest else s.largest end as first_value,
        case when s.rises then least(s.largest, f.top) else greatest(s.smallest, f.bottom) end as end_value,
        case when s.rises then s.largest else s.smallest end as own_end
    from
        sequences as s
        left join fits as f on f.sequence = s.oid and f.rank = 1
    where
        s.last_value is not null
),
used as materialized (
    -- Most sequences are far from their end, so only the rest gets names.
    select *
    from
        shares
        cross join lateral (
            select ((last_value - first_value) / nullif(end_value - first_value, 0))::float8 as share
        ) as computed
    where
        share >= $1::float8
)
select
    format('%I.%I', n.nspname, u.relname) as name,
    u.table_oid::regclass::text as table_name,
    quote_ident(u.attname) as column_name,
    array(
        select distinct format('alter table %s alter column %I type bigint', f.table_oid::regclass, f.attname) as w
        from fits as f
        where
            f.sequence = u.oid
            and f.can_widen
            -- Otherwise the sequence ends before the column does.
            and case when u.rises then f.top <= u.own_end else f.bottom >= u.own_end end
        order by w
    ) as widenings,
    -- The type moves the end of a sequence only if that is the end of its type.
    case u.seqtypid
        when 'int2'::regtype then u.own_end in (-32768, 32767)
        when 'int4'::regtype then u.own_end in (-2147483648, 2147483647)
        else false
    end as ends_with_type,
    u.last_value,
    u.end_value::bigint as end_value,
    u.share
from
    used as u
    join pg_namespace as n on n.oid = u.relnamespace
order by
    share desc, name
limit $2
