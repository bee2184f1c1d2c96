pg_catalog.make_timestamp(
    pg_catalog.substr({text}, 1, 4)::integer,
    pg_catalog.substr({text}, 6, 2)::integer,
    pg_catalog.substr({text}, 9, 2)::integer,
    pg_catalog.substr({text}, 12, 2)::integer,
    pg_catalog.substr({text}, 15, 2)::integer,
    pg_catalog.substr({text}, 18, 2)::integer
) + case
    when pg_catalog.substr({text}, 20, 1) <> '.' then '0'::interval
    when pg_catalog.substr({text}, 12, 8) = '23:59:60'
        then pg_catalog.make_time(23, 59, pg_catalog.substring({text}, '60[.][0-9]+')::double precision) - '24:00'::time
    else pg_catalog.make_interval(secs => pg_catalog.substring({text}, '[.][0-9]+')::double precision)
end
