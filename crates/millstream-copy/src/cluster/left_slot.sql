select pg_catalog.pg_drop_replication_slot(s.slot_name)
from pg_catalog.pg_replication_slots s
where s.slot_name = $1 and not s.active and s.restart_lsn = $2::text::pg_catalog.pg_lsn
