-- The query of a view, and the name of the table that it reads as it stands there.
select pg_catalog.pg_get_viewdef($1::text::pg_catalog.regclass), $2::text::pg_catalog.regclass::text
