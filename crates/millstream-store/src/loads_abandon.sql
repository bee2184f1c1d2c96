-- Lets nobody resume the loads that stopped longer ago than $1 seconds, and returns their numbers. A load stays as it is if it
-- would count its documents twice when it runs again, or if a session works for it. Run it under the lock that every load takes
-- when it begins.
update {schema}.load l
set resumable = false
where l.state = 'stopped'
  and l.mode not like 'sum%'
  and l.ended_at < pg_catalog.now() - pg_catalog.make_interval(secs => $1)
  and not exists (
{sessions}
  )
returning l.load_id
