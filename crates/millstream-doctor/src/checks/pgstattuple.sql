-- The schema of a function of the extension pgstattuple or pg_freespacemap that this role may call with a table or an index.
-- $1: its name. $2: the types of its arguments.
select
    n.nspname
from
    pg_proc as p
    join pg_namespace as n on n.oid = p.pronamespace
    join pg_depend as d on d.objid = p.oid and d.classid = 'pg_proc'::regclass and d.deptype = 'e'
    join pg_extension as e on e.oid = d.refobjid and e.extname in ('pgstattuple', 'pg_freespacemap')
where
    p.proname = $1
    and oidvectortypes(p.proargtypes) = $2::text
    and has_function_privilege(p.oid, 'execute')
    and has_schema_privilege(n.oid, 'usage')
