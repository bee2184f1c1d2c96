select pg_catalog.set_config(name, 'view', false)
  from pg_catalog.pg_settings
 where name operator(pg_catalog.=) 'restrict_nonsystem_relation_kind'
   and exists (
       select
         from pg_catalog.pg_roles
        where rolname operator(pg_catalog.=) any (array[session_user, current_user])
          and (rolsuper or rolbypassrls)
   );
