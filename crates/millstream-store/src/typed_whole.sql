pg_catalog.make_timestamp(
    pg_catalog.substr({text}, 1, 4)::integer,
    pg_catalog.substr({text}, 6, 2)::integer,
    pg_catalog.substr({text}, 9, 2)::integer,
    pg_catalog.substr({text}, 12, 2)::integer,
    pg_catalog.substr({text}, 15, 2)::integer,
    pg_catalog.substr({text}, 18, 2)::integer
)
