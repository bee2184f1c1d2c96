-- The OIDs of other change records that this table's triggers write. A restore leaves such triggers.
select distinct (pg_catalog.regexp_match(p.proname, '^change_([0-9]+)_'))[1]::oid
from pg_catalog.pg_trigger t
join pg_catalog.pg_proc p on p.oid = t.tgfoid
join pg_catalog.pg_namespace n on n.oid = p.pronamespace
where t.tgrelid = $1
  and n.nspname = $2
  and p.proname::text ~ '^change_[0-9]+_(record|key)$'
  and p.proname::text not like 'change\_' || $1::text || '\_%'
