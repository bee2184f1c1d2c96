-- The clause that makes an index of a table, as the server prints it, and the expressions in it as they are stored. It does
-- not print a tablespace, which comes before the condition.
select printed.start
       || coalesce(' tablespace ' || pg_catalog.quote_ident(s.spcname), '')
       || printed.condition,
       pg_catalog.concat(i.indexprs, i.indpred)
from pg_catalog.pg_index i
join pg_catalog.pg_class c on c.oid = i.indexrelid
left join pg_catalog.pg_tablespace s on s.oid = c.reltablespace
cross join lateral (
    select pg_catalog.pg_get_indexdef(i.indexrelid) as whole,
           coalesce(' WHERE ' || pg_catalog.pg_get_expr(i.indpred, i.indrelid), '') as condition
) as definition
cross join lateral (
    select pg_catalog.substr(whole, pg_catalog.strpos(whole, ' USING ') + 1,
                             pg_catalog.length(whole) - pg_catalog.length(definition.condition)
                             - pg_catalog.strpos(whole, ' USING ')) as start,
           definition.condition
) as printed
where i.indrelid = $1::text::pg_catalog.regclass::oid
  and c.relname = $2::text
