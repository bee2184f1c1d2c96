select n.oid,
       pg_catalog.pg_get_userbyid(n.nspowner)::pg_catalog.text as owner,
       pg_catalog.has_schema_privilege(n.oid, 'usage') as usage,
       pg_catalog.has_schema_privilege(n.oid, 'create') as "create",
       pg_catalog.pg_has_role(n.nspowner, 'usage') as own
  from pg_catalog.pg_namespace n
 where n.nspname = $1::pg_catalog.text
