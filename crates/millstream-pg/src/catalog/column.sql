with recursive base (type_oid, base_oid, modifier) as (
  select distinct a.atttypid, a.atttypid, -1
    from pg_catalog.pg_attribute a
   where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped
  union all
  select b.type_oid, t.typbasetype, t.typtypmod
    from base b
    join pg_catalog.pg_type t on t.oid = b.base_oid
   where t.typtype = 'd'
)
select a.attname::pg_catalog.text as name,
       a.atttypid::pg_catalog.int8 as type_oid,
       pg_catalog.format_type(a.atttypid, a.atttypmod) as type_name,
       b.base_oid::pg_catalog.int8 as base_type_oid,
       pg_catalog.format_type(b.base_oid, case when b.base_oid = a.atttypid then a.atttypmod else b.modifier end)
         as base_type_name,
       case when co.oid is not null then pg_catalog.json_build_array(cn.nspname, co.collname) end as collation,
       coalesce(co.collisdeterministic, true) as deterministic,
       a.attnotnull as not_null,
       (a.atthasdef and a.attgenerated = '') or a.attidentity <> '' as has_default,
       a.attgenerated <> '' as generated,
       case when a.attgenerated = 's' then pg_catalog.pg_get_expr(d.adbin, d.adrelid) end as expression,
       nullif(a.attidentity::pg_catalog.text, '') as identity,
       nullif(a.attcompression::pg_catalog.text, '') as compression
  from pg_catalog.pg_attribute a
  join base b on b.type_oid = a.atttypid
  join pg_catalog.pg_type t on t.oid = b.base_oid and t.typtype <> 'd'
  left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
  left join pg_catalog.pg_collation co on co.oid = a.attcollation
  left join pg_catalog.pg_namespace cn on cn.oid = co.collnamespace
 where a.attrelid = $1
   and a.attnum > 0
   and not a.attisdropped
 order by a.attnum
