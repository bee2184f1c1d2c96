-- The indexes of a table that a plan may use, each expression as `explain (verbose)` spells it.
-- The type after 1, because the server could not plan a counted statement without it again.
select c.relname::text as name,
       am.amname::text as method,
       pg_catalog.pg_get_indexdef(i.indexrelid) as definition,
       array(
           select pg_catalog.pg_get_indexdef(i.indexrelid, n, false)
           from pg_catalog.generate_series(1::pg_catalog.int4, i.indnkeyatts) as n
           order by n
       ) as keys,
       array(
           select pg_catalog.format_type(a.atttypid, a.atttypmod)
           from pg_catalog.pg_attribute a
           where a.attrelid = i.indexrelid
             and a.attnum <= i.indnkeyatts
           order by a.attnum
       ) as types,
       array(
           select case when l.oid is not null
                       then pg_catalog.quote_ident(s.nspname) || '.' || pg_catalog.quote_ident(l.collname) end
           from pg_catalog.unnest(i.indcollation) with ordinality as k (collation_oid, n)
           left join pg_catalog.pg_collation l on l.oid = k.collation_oid
           left join pg_catalog.pg_namespace s on s.oid = l.collnamespace
           order by k.n
       ) as collations,
       array(
           select o.opcname::text
           from pg_catalog.unnest(i.indclass) with ordinality as k (class_oid, n)
           join pg_catalog.pg_opclass o on o.oid = k.class_oid
           order by k.n
       ) as classes,
       -- Operators by which its first key finds rows, as the family of its class of operators says.
       array(
           select distinct o.oprname::text
           from pg_catalog.pg_opclass f
           join pg_catalog.pg_amop a on a.amopfamily = f.opcfamily and a.amoppurpose = 's'
           join pg_catalog.pg_operator o on o.oid = a.amopopr
           where f.oid = i.indclass[0]
       ) as operators,
       coalesce(pg_catalog.pg_index_column_has_property(i.indexrelid, 1, 'search_nulls'), false) as finds_nulls,
       i.indoption::pg_catalog.int2[] as options,
       pg_catalog.pg_get_expr(i.indpred, i.indrelid) as predicate
from pg_catalog.pg_index i
join pg_catalog.pg_class c on c.oid = i.indexrelid
join pg_catalog.pg_am am on am.oid = c.relam
where i.indrelid = $1
  and i.indisvalid
  and i.indisready
order by c.relname
