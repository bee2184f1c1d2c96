-- The keys recorded after a snapshot, each once.
select distinct {changed}
from {record} as change,
     rows from ({arrays}) as changed ({names})
where change.keys > 0
  and not pg_catalog.pg_visible_in_snapshot(change.xid, ({snapshot}::text)::pg_catalog.pg_snapshot)
