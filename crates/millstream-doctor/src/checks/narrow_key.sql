-- Columns of keys whose largest value is near the largest of their type, and that get their numbers from no sequence.
-- $1: from this share on. $2: at most so many.
with narrow as (
    select
        a.attrelid,
        a.attnum,
        a.attname,
        y.oid::regtype::text as type,
        case y.oid when 'int2'::regtype then 32767 else 2147483647 end as end_value
    from
        pg_attribute as a
        join pg_type as y on y.oid = a.atttypid and y.oid in ('int2'::regtype, 'int4'::regtype)
    where
        a.attnum > 0
        and not a.attisdropped
        and a.attidentity = ''
        and a.attinhcount = 0
        and (
            exists (
                select from pg_index as i
                where i.indrelid = a.attrelid and i.indisunique and i.indkey[0] = a.attnum and i.indnkeyatts = 1
            )
            or exists (
                select from pg_constraint as k
                where k.conrelid = a.attrelid and k.contype = 'f' and k.conkey = array[a.attnum]
            )
        )
        -- What a sequence numbers is in sequence-end.
        and not exists (
            select from pg_depend as d
            where
                d.classid = 'pg_class'::regclass
                and d.refclassid = 'pg_class'::regclass
                and d.refobjid = a.attrelid
                and d.refobjsubid = a.attnum
                and d.deptype in ('a', 'i')
                and exists (select from pg_sequence as s where s.seqrelid = d.objid)
        )
        and not exists (
            select from pg_attrdef as f join pg_depend as d on d.objid = f.oid join pg_class as s on s.oid = d.refobjid
            where f.adrelid = a.attrelid and f.adnum = a.attnum and s.relkind = 'S'
        )
),
used as (
    select
        n.*,
        (s.histogram_bounds::text::bigint[])[array_upper(s.histogram_bounds::text::bigint[], 1)] as bound,
        (select max(v) from unnest(s.most_common_vals::text::bigint[]) as v) as common
    from
        narrow as n
        join pg_class as c on c.oid = n.attrelid and c.relpersistence <> 't' and c.relkind in ('r', 'p')
        join pg_namespace as m on m.oid = c.relnamespace and m.nspname <> 'pg_catalog'
        join pg_stats as s on s.schemaname = m.nspname and s.tablename = c.relname and s.attname = n.attname
    where
        s.inherited = (c.relkind = 'p')
)
select
    attrelid::regclass::text as table_name,
    quote_ident(attname) as column_name,
    type,
    end_value::bigint as end_value,
    greatest(bound, common) as largest
from
    used
where
    greatest(bound, common) >= $1::float8 * end_value
order by
    greatest(bound, common)::float8 / end_value desc, 1, 2
limit $2
