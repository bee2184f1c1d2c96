{whole} + case
    when pg_catalog.substr({text}, 20, 1) <> '.' then '0'::interval
    when pg_catalog.substr({text}, 12, 8) = '23:59:60'
        then pg_catalog.make_time(23, 59, pg_catalog.substring({text}, '60[.][0-9]+')::double precision) - '24:00'::time
    else pg_catalog.make_interval(secs => pg_catalog.substring({text}, '[.][0-9]+')::double precision)
end
