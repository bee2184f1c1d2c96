-- Whether our tables, the collection's table and its primary key are there, and the table has its name.
select
    exists (
        select
        from pg_catalog.pg_class c
        join pg_catalog.pg_namespace n on n.oid = c.relnamespace
        where n.nspname = $1::text and c.relname = 'load'
    ),
    exists (select from pg_catalog.pg_class where oid = $2),
    exists (select from pg_catalog.pg_constraint where conrelid = $2 and contype = 'p'),
    exists (
        select
        from pg_catalog.pg_class c
        join pg_catalog.pg_namespace n on n.oid = c.relnamespace
        where c.oid = $2 and n.nspname = $3::text and c.relname = $4::text
    )
