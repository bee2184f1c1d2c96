delete from {schema}.load
where state = 'finished'
    and mode not like 'sum%'
    and ended_at < pg_catalog.now() - pg_catalog.make_interval(secs => $1)
returning load_id
