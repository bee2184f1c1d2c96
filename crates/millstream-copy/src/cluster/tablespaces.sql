select t.oid::pg_catalog.oid as oid, pg_catalog.pg_tablespace_location(t.oid) as location
from pg_catalog.pg_tablespace t
where pg_catalog.pg_tablespace_location(t.oid) like '/%'
order by t.oid
