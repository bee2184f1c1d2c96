select n.nspname || '.' || c.relname as name
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relpersistence = 'u' and c.relkind = 'r'
order by 1
