-- PostgreSQL's own names come first in the search path, before any other statement looks a name up.
select pg_catalog.set_config('search_path',
         (select coalesce(pg_catalog.string_agg(pg_catalog.quote_ident(schema), ', ' order by place), '')
            from pg_catalog.unnest(pg_catalog.current_schemas(false)) with ordinality as path (schema, place)
           where schema operator(pg_catalog.<>) 'pg_catalog'), false)
 where (pg_catalog.current_schemas(true))[1] operator(pg_catalog.<>) 'pg_catalog';
