-- Tables for a statement that begins `with recursive`: `me`, and of each role whether `me` trusts it.
-- Both count: code that runs with the current role's rights can take those of the session's.
me as (
    select r.oid, r.rolsuper as is_super
    from pg_catalog.pg_roles r
    where r.rolname in (session_user, current_user)
),
-- Roles whose rights each of them has. Before version 16 every role may grant itself to others, so a membership counts
-- only if a superuser has granted it, or to a role without superuser rights one that may create roles.
membership as (
    select oid as me, oid as role, is_super
    from me
    union
    select h.me, m.roleid, h.is_super
    from membership h
    join pg_catalog.pg_auth_members m on m.member operator(pg_catalog.=) h.role
    join pg_catalog.pg_roles g on g.oid operator(pg_catalog.=) m.grantor
    where (g.rolsuper or g.rolcreaterole and not h.is_super)
      and coalesce(
          (pg_catalog.to_jsonb(m) operator(pg_catalog.->>) 'inherit_option'::pg_catalog.text)::pg_catalog.bool
          or (pg_catalog.to_jsonb(m) operator(pg_catalog.->>) 'set_option'::pg_catalog.text)::pg_catalog.bool,
          true
      )
),
-- The role pg_database_owner stands for the owner of the database.
role as (
    select r.oid,
           actual.oid as actual,
           actual.rolsuper
           or actual.rolname::pg_catalog.text operator(pg_catalog.=) any ({trusted}::pg_catalog.text[])
           or not exists (
               select
               from me
               where not exists (
                   select
                   from membership h
                   where h.me operator(pg_catalog.=) me.oid
                     and h.role operator(pg_catalog.=) actual.oid
               )
           ) as is_trusted
    from pg_catalog.pg_roles r
    cross join pg_catalog.pg_database d
    join pg_catalog.pg_roles actual
      on actual.oid operator(pg_catalog.=) case
          when r.rolname operator(pg_catalog.=) 'pg_database_owner'::pg_catalog.name then d.datdba
          else r.oid
      end
    where d.datname operator(pg_catalog.=) pg_catalog.current_database()
),
