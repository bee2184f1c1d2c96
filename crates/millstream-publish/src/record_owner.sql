-- Another role that owns the change record or a function of its triggers, if there is one.
select pg_catalog.pg_get_userbyid(kept.owner)::text
from (
    select relowner as owner
    from pg_catalog.pg_class
    where oid = pg_catalog.to_regclass($1)::pg_catalog.oid
    union all
    select proowner
    from pg_catalog.pg_proc
    where oid in (pg_catalog.to_regprocedure($2)::pg_catalog.oid, pg_catalog.to_regprocedure($3)::pg_catalog.oid)
) as kept
where pg_catalog.pg_get_userbyid(kept.owner) <> current_user
limit 1
