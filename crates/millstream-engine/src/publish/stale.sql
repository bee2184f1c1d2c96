-- Whether a generation holds rows, and its indexes.
select
    pg_catalog.pg_relation_size($1::text::pg_catalog.regclass) > 0,
    array(
        select indexrelid::pg_catalog.regclass::text
        from pg_catalog.pg_index
        where indrelid = $1::text::pg_catalog.regclass
    )
