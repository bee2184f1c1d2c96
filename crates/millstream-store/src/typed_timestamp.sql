case
    when {text} like '____-__-__T__:__:__' and {usual}
        then {whole}
    when {text} ~ '^[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][Tt ]([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)([.][0-9]+)?$'
        then {clock}
    else pg_catalog.make_timestamp(({text} || ' is no RFC 3339 time without an offset')::integer, 1, 1, 0, 0, 0)
end
