-- The snapshot in which a load into table $1 begins. The rows of a subtransaction have a number that a snapshot does not
-- list while its transaction runs. So if a transaction that has written into the table still runs, everything from its
-- number on counts as written since. Locks name it by the lower 32 bits of its number, as `missing_before.sql` of the
-- engine explains.
select coalesce(
    (
        select pg_catalog.concat(pg_catalog.min(writer.number), ':', pg_catalog.min(writer.number), ':')::pg_snapshot
        from (
            select seen.bound - ((seen.bound - t.transactionid::text::bigint) & 4294967295) as number
            from (
                select pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text::bigint + 16777216 as bound
            ) as seen
            cross join pg_catalog.pg_locks l
            join pg_catalog.pg_locks t on t.virtualtransaction = l.virtualtransaction
            where l.locktype = 'relation'
              and l.granted
              and l.mode operator(pg_catalog.=) any (
                  array['RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock']
              )
              and l.database = (select oid from pg_catalog.pg_database where datname = pg_catalog.current_database())
              and l.pid is distinct from pg_catalog.pg_backend_pid()
              and (
                  l.relation = $1::oid
                  or exists (
                      select from pg_catalog.pg_partition_tree($1::oid::regclass) as part where part.relid::oid = l.relation
                  )
              )
              and t.locktype = 'transactionid'
              and t.mode = 'ExclusiveLock'
              and t.granted
        ) as writer
        having pg_catalog.min(writer.number) is not null
    ),
    pg_catalog.pg_current_snapshot()
)
