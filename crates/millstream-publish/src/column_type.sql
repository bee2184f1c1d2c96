-- The type of a table's only column, as in SQL, and whether only input functions of PostgreSQL itself read it, without an
-- error that ends the statement. Those of the types of names, such as regclass, raise one.
select pg_catalog.format_type(a.atttypid, a.atttypmod),
       t.typtype = 'e'
       or t.typtype in ('b', 'r', 'm') and t.typnamespace = 'pg_catalog'::pg_catalog.regnamespace::oid
          and pg_catalog.left(t.typname::text, 3) <> 'reg'
from pg_catalog.pg_attribute a
join pg_catalog.pg_type t on t.oid = a.atttypid
where a.attrelid = $1::text::pg_catalog.regclass::oid
  and a.attnum = 1
