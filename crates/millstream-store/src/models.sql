-- Read models under the current names of their views. The owner of the table model_ID owns the model. Its comment holds
-- what that owner published, and the comment of its first column tells the view that we made and its rule.
select
    m.model_id,
    pg_catalog.hashoid(m.tableoid) # m.model_id as lock_id,
    pg_catalog.json_build_object(
        'schema', coalesce(n.nspname::text, m.schema_name), 'table', coalesce(v.relname::text, m.model_name)
    ) as name,
    m.table_oid::bigint as table_oid,
    case when c.oid is not null then pg_catalog.json_build_object('schema', cn.nspname, 'table', c.relname) end
        as collection,
    m.definition,
    m.wanted,
    m.serving,
    m.shows::text as shows,
    v.oid is not null as view_present,
    coalesce(
        v.relkind = 'v'
        and pg_catalog.split_part(rule.known, ' ', 1) = v.oid::text
        and pg_catalog.split_part(rule.known, ' ', 2) is distinct from (
            select r.xmin::text from pg_catalog.pg_rewrite r where r.ev_class = v.oid and r.rulename = '_RETURN'
        ),
        false
    ) as view_replaced,
    pg_catalog.pg_get_userbyid(kept.relowner)::text as owner,
    coalesce(pg_catalog.pg_get_userbyid(kept.relowner) = current_user and session_user = current_user, false) as is_own,
    m.way,
    pg_catalog.to_char(m.refreshed_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as refreshed_at,
    pg_catalog.obj_description(kept.oid, 'pg_class') as resolved
from {schema}.model m
left join pg_catalog.pg_class v on v.oid = m.view_oid
left join pg_catalog.pg_namespace n on n.oid = v.relnamespace
left join pg_catalog.pg_class ours on ours.oid = m.tableoid
left join pg_catalog.pg_class kept
    on kept.relnamespace = ours.relnamespace and kept.relname = 'model_' || m.model_id::text
left join lateral (select pg_catalog.col_description(kept.oid, 1) as known) as rule on true
left join pg_catalog.pg_class c on c.oid = m.table_oid
left join pg_catalog.pg_namespace cn on cn.oid = c.relnamespace
order by coalesce(n.nspname::text, m.schema_name), coalesce(v.relname::text, m.model_name)
