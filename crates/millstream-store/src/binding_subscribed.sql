-- A subscription that writes our tables, if there is one.
select s.subname::text
from pg_catalog.pg_subscription_rel r
join pg_catalog.pg_subscription s on s.oid = r.srsubid
join pg_catalog.pg_class c on c.oid = r.srrelid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = $1
limit 1
