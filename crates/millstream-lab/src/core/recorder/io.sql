-- Reads and writes by kind of process. Temporary tables have labels of their own; the WAL is another source.
select
    case backend_type
        when 'client backend' then 'client'
        when 'background writer' then 'writer'
        when 'checkpointer' then 'checkpointer'
        when 'autovacuum worker' then 'autovacuum'
        else 'other'
    end || case object when 'relation' then '' else '_temporary' end as label,
    coalesce(pg_catalog.sum(reads), 0)::float8 as reads,
    coalesce(pg_catalog.sum(read_time), 0)::float8 as read_ms,
    coalesce(pg_catalog.sum(writes), 0)::float8 as writes,
    coalesce(pg_catalog.sum(write_time), 0)::float8 as write_ms,
    coalesce(pg_catalog.sum(fsyncs), 0)::float8 as fsyncs,
    coalesce(pg_catalog.sum(fsync_time), 0)::float8 as fsync_ms,
    coalesce(pg_catalog.sum(extends), 0)::float8 as extends,
    coalesce(pg_catalog.sum(evictions), 0)::float8 as evictions,
    coalesce(pg_catalog.sum(hits), 0)::float8 as hits
from
    pg_catalog.pg_stat_io
where
    object <> 'wal'
group by
    1
