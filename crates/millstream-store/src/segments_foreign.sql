-- The roles that own segments of a table which this role may not drop.
select distinct pg_catalog.pg_get_userbyid(c.relowner)::text
from {schema}.segment s
join pg_catalog.pg_class c on c.relname = 'segment_' || s.segment_id::text
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where s.table_oid = $1
  and n.nspname = $2
  and not pg_catalog.pg_has_role(c.relowner, 'usage')
order by 1
