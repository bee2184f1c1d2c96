-- Lets the clause of a new index name what is in the schema of the table or in public, until the end of the transaction.
-- Returns the schemas that are searched, and who owns the table. $1: the table.
select
    set_config(
        'search_path',
        concat_ws(', ', 'pg_catalog', nullif(quote_ident(n.nspname), 'public'), 'public'),
        true
    ) as schemas,
    quote_ident(pg_get_userbyid(t.relowner)) as owner
from
    pg_class as t
    join pg_namespace as n on n.oid = t.relnamespace
where
    t.oid = $1::text::regclass
