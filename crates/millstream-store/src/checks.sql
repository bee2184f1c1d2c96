-- Before PostgreSQL 18 every CHECK constraint is enforced.
select conname::pg_catalog.text,
       pg_catalog.pg_get_expr(conbin, conrelid),
       convalidated
from pg_catalog.pg_constraint as c
where conrelid = $1
  and contype = 'c'
  and coalesce((pg_catalog.to_jsonb(c) operator(pg_catalog.->>) 'conenforced')::boolean, true)
order by conname
