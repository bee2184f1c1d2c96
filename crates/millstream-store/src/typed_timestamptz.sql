case
    when {text} ~ '^[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][Tt ]([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)([.][0-9]+)?([Zz]|[-+](0[0-9]|1[0-5]):[0-5][0-9])$'
        then pg_catalog.timezone(
            case
                when pg_catalog.right({text}, 1) in ('Z', 'z') then '0'::interval
                else pg_catalog.make_interval(
                    hours => pg_catalog.substr(pg_catalog.right({text}, 6), 1, 3)::integer,
                    mins => (pg_catalog.substr(pg_catalog.right({text}, 6), 1, 1) || pg_catalog.right({text}, 2))::integer
                )
            end,
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
        )
    else pg_catalog.to_timestamp(({text} || ' is no RFC 3339 time')::integer)
end
