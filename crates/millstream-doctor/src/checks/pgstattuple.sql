-- The schema of a function of the extension pgstattuple that this role may call with a table or an index. $1: its name.
select
    n.nspname
from
    pg_proc as p
    join pg_namespace as n on n.oid = p.pronamespace
    join pg_depend as d on d.objid = p.oid and d.classid = 'pg_proc'::regclass and d.deptype = 'e'
    join pg_extension as e on e.oid = d.refobjid and e.extname = 'pgstattuple'
where
    p.proname = $1
    and p.proargtypes::text = 'regclass'::regtype::oid::text
    and has_function_privilege(p.oid, 'execute')
    and has_schema_privilege(n.oid, 'usage')
