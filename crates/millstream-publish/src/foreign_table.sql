-- A relation beside the table $1 with a name of this pattern and another owner.
select c.oid::pg_catalog.regclass::text
from pg_catalog.pg_class kept
join pg_catalog.pg_class c on c.relnamespace = kept.relnamespace
where kept.oid = $1::text::pg_catalog.regclass::oid
  and c.relname::text ~ $2::text
  and c.relowner <> kept.relowner
order by 1
limit 1
