-- The latest runs of unfinished loads into a table, the oldest first. `at_work`: a session of the run lives.
-- `followed`: documents of a later run wait in segments.
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
