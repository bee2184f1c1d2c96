-- Runs into a table that may not have ended, the oldest first, and whether a session of them lives. A run is followed by
-- one whose documents wait in segments.
select
    l.load_id,
    l.run_order,
    l.layout,
    l.mode,
    l.state = 'running' as running,
    exists (
{sessions}
    ) as at_work,
    exists (
        select
        from {schema}.segment s
        where s.table_oid = l.table_oid
          and s.run_order > l.run_order
    ) as followed
from {schema}.load l
where l.table_oid = $1
  and l.state <> 'finished'
order by l.run_order
