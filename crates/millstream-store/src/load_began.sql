-- The snapshot in which a load into table $1 begins. A snapshot does not list subtransactions of transactions that run, and
-- their rows have numbers of their own. Open ones have a lock, so they are listed here. Those that are released have none.
-- So everything from the number of a transaction on counts as written since, if it has written into the table and still
-- runs, or if it ended before its locks were read. Locks have the lower 32 bits of a number, as `missing_before.sql` of the
-- engine explains.
with seen as (
    select
        pg_catalog.pg_snapshot_xmin(taken)::text::bigint as low,
        pg_catalog.pg_snapshot_xmax(taken)::text::bigint as high,
        pg_catalog.pg_snapshot_xmax(taken)::text::bigint + 16777216 as bound
    from pg_catalog.pg_current_snapshot() as taken
),
listed as (
    select pg_catalog.pg_snapshot_xip(pg_catalog.pg_current_snapshot())::text::bigint as number
),
locks as materialized (
    select locktype, database, relation, transactionid, virtualtransaction, mode
    from pg_catalog.pg_locks
    where granted
      and pid is distinct from pg_catalog.pg_backend_pid()
),
running as (
    select l.virtualtransaction, seen.bound - ((seen.bound - l.transactionid::text::bigint) & 4294967295) as number
    from locks l
    cross join seen
    where l.locktype = 'transactionid'
      and l.mode = 'ExclusiveLock'
),
doubtful as (
    select r.number
    from running r
    join locks l on l.virtualtransaction = r.virtualtransaction
    where l.locktype = 'relation'
      and l.mode operator(pg_catalog.=) any (
          array['RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock']
      )
      and l.database = (select oid from pg_catalog.pg_database where datname = pg_catalog.current_database())
      and (
          l.relation = $1::oid
          or exists (
              select from pg_catalog.pg_partition_tree($1::oid::regclass) as part where part.relid::oid = l.relation
          )
      )
    union all
    select listed.number
    from listed
    where not exists (select from running r where r.number = listed.number)
),
sure as (
    select least(seen.high, (select pg_catalog.min(number) from doubtful)) as high
    from seen
)
select pg_catalog.concat(
    least(seen.low, sure.high), ':', sure.high, ':',
    (
        select pg_catalog.string_agg(known.number::text, ',' order by known.number)
        from (
            select number from listed
            union
            select number from running
        ) as known
        -- A transaction that has ended holds its lock for a moment longer. A snapshot cannot list it.
        where known.number >= least(seen.low, sure.high)
          and known.number < sure.high
    )
)::pg_snapshot
from seen
cross join sure
