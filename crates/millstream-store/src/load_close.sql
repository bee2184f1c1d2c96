-- Records how a run ended.
update {schema}.load
set state = $2,
    stop_reason = $3,
    ended_at = pg_catalog.now(),
    receipt = ($4::text)::jsonb
where load_id = $1
