case
    when {text} like '____-__-__'
        and {text} not like '%-%-%-%'
        and pg_catalog.ltrim({text}, '0123456789-') = ''
        then pg_catalog.make_date(pg_catalog.substr({text}, 1, 4)::integer, pg_catalog.substr({text}, 6, 2)::integer, pg_catalog.substr({text}, 9, 2)::integer)
    else pg_catalog.make_date(({text} || ' is no RFC 3339 date')::integer, 1, 1)
end
