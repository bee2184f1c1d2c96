-- The collection other than that of the table $1 into which another session of a group loads one of the streams $2. The
-- sessions of the group share the advisory lock of the two numbers $3 and $4.
select l.collection
from {schema}.load l
join pg_catalog.pg_locks k
    on {locked}
   and k.pid <> pg_catalog.pg_backend_pid()
join pg_catalog.pg_locks g
    on {in_group}
where l.sources operator(pg_catalog.&&) $2::text[]
  and pg_catalog.cardinality(l.sources) = 1
  and l.resumable
  and l.state <> 'finished'
  and l.table_oid is distinct from pg_catalog.to_regclass($1::text)::oid
order by l.load_id
limit 1
