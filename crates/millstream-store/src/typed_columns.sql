-- The stored generated columns of table $1, in its order.
select
    a.attname::text as name,
    pg_catalog.format_type(a.atttypid, a.atttypmod) as type,
    pg_catalog.pg_get_expr(d.adbin, d.adrelid) as expression
from pg_catalog.pg_attribute a
join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = $1
  and a.attgenerated = 's'
  and not a.attisdropped
order by a.attnum
