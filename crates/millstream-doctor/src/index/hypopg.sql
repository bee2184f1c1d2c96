-- The schema of the extension hypopg, if this role may use it, and whether the role may read a table. $1: the table, quoted.
select
    n.nspname::text as schema,
    pg_catalog.has_table_privilege($1::text, 'select') as may_read
from
    pg_catalog.pg_extension as e
    join pg_catalog.pg_namespace as n on n.oid = e.extnamespace
where
    e.extname = 'hypopg'
    and pg_catalog.has_schema_privilege(n.oid, 'usage')
