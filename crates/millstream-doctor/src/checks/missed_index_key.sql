-- The first key of an index, whether the index keeps the values of that key unique, and whether no query has used it and
-- nothing else needs it. $1, $2: its schema and name.
select
    pg_catalog.pg_get_indexdef(i.indexrelid, 1, true) as key,
    i.indisunique and i.indnkeyatts = 1 and i.indpred is null as is_unique,
    i.indisunique as has_unique_keys,
    -- A standby counts its own queries only.
    pg_catalog.pg_stat_get_numscans(i.indexrelid) = 0
    and pg_catalog.current_setting('track_counts')::pg_catalog.bool
    and not pg_catalog.pg_is_in_recovery()
    and not i.indisreplident
    and not i.indisclustered
    and not exists (select from pg_catalog.pg_constraint as k where k.conindid = i.indexrelid)
    and not exists (select from pg_catalog.pg_inherits as h where h.inhrelid = i.indexrelid) as is_idle
from
    pg_catalog.pg_index as i
    join pg_catalog.pg_class as c on c.oid = i.indexrelid
    join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where
    n.nspname = $1
    and c.relname = $2
