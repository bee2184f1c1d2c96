{text} not like '%-%-%-%'
        and {text} not like '___________24%'
        and pg_catalog.ltrim({text}, '0123456789:-TZ') = ''
