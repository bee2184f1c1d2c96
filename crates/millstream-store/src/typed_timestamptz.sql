case
    when {text} like '____-__-__T__:__:__Z' and {usual}
        then pg_catalog.timezone('0'::interval, {whole})
    when {text} ~ '^[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][Tt ]([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)([.][0-9]+)?([Zz]|[-+](0[0-9]|1[0-5]):[0-5][0-9])$'
        then pg_catalog.timezone(
            case
                when pg_catalog.right({text}, 1) in ('Z', 'z') then '0'::interval
                else pg_catalog.make_interval(
                    hours => pg_catalog.substr(pg_catalog.right({text}, 6), 1, 3)::integer,
                    mins => (pg_catalog.substr(pg_catalog.right({text}, 6), 1, 1) || pg_catalog.right({text}, 2))::integer
                )
            end,
            {clock}
        )
    else pg_catalog.to_timestamp(({text} || ' is no RFC 3339 time')::integer)
end
