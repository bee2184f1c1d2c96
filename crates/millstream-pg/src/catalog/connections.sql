with facts as (
  select pg_catalog.current_setting('max_connections')::pg_catalog.int4 as max,
         case when r.rolsuper then 0
              else pg_catalog.current_setting('superuser_reserved_connections')::pg_catalog.int4
                 + case when exists (select from pg_catalog.pg_roles p
                                      where p.rolname = 'pg_use_reserved_connections'
                                        and pg_catalog.pg_has_role(p.oid, 'usage')) then 0
                        else coalesce(pg_catalog.current_setting('reserved_connections', true), '0')::pg_catalog.int4
                   end
         end as reserved,
         (select pg_catalog.sum(s.numbackends)::pg_catalog.int4 from pg_catalog.pg_stat_database s) as used,
         case when r.rolconnlimit < 0 or r.rolsuper then null
              else r.rolconnlimit - (select pg_catalog.count(*)::pg_catalog.int4 from pg_catalog.pg_stat_activity a
                                      where a.usesysid = r.oid) end as role_free,
         (select case when d.datconnlimit < 0 or r.rolsuper then null
                      else d.datconnlimit - (select s.numbackends from pg_catalog.pg_stat_database s
                                              where s.datid = d.oid) end
            from pg_catalog.pg_database d
           where d.datname = pg_catalog.current_database()) as database_free
    from pg_catalog.pg_roles r
   where r.rolname = session_user
)
select greatest(0, least(max - reserved - used, role_free, database_free)) as free
  from facts
