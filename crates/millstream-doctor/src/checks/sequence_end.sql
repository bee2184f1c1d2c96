-- Sequences that have used up a share of their numbers, or of those that fit their column. $1: the share. $2: at most.
with used as (
    select
        n.nspname,
        c.relname,
        s.last_value,
        case when s.increment_by > 0 then s.min_value else s.max_value end::numeric as first_value,
        case when s.increment_by > 0 then least(s.max_value::numeric, narrow.top)
            else greatest(s.min_value::numeric, narrow.bottom) end as end_value,
        s.data_type::text as sequence_type,
        a.attrelid::regclass::text as table_name,
        quote_ident(a.attname) as column_name,
        a.atttypid::regtype::text as column_type
    from
        pg_sequences as s
        join pg_namespace as n on n.nspname = s.schemaname
        join pg_class as c on c.relnamespace = n.oid and c.relname = s.sequencename
        left join pg_depend as d
            on d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype in ('a', 'i')
            and d.refclassid = 'pg_class'::regclass
        left join pg_attribute as a on a.attrelid = d.refobjid and a.attnum = d.refobjsubid
        left join (values
            ('int2'::regtype, 32767::numeric, -32768::numeric),
            ('int4'::regtype, 2147483647, -2147483648)
        ) as narrow (type, top, bottom) on narrow.type = a.atttypid
    where
        s.last_value is not null
        and not s.cycle
),
shares as (
    -- A sequence that counts down begins at its largest number.
    select *, ((last_value - first_value) / nullif(end_value - first_value, 0))::float8 as share from used
)
select
    format('%I.%I', nspname, relname) as name,
    table_name,
    column_name,
    column_type,
    sequence_type,
    last_value,
    end_value::bigint as end_value,
    share
from
    shares
where
    share >= $1::float8
order by
    share desc, name
limit $2
