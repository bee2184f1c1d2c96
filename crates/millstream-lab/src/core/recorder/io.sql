-- Reads and writes by kind of process. Temporary tables have labels of their own; the WAL is another source.
select
    case backend_type
        when 'client backend' then 'client'
        when 'background writer' then 'writer'
        when 'checkpointer' then 'checkpointer'
        when 'autovacuum worker' then 'autovacuum'
        else 'other'
    end || case object when 'relation' then '' else '_temporary' end as label,
    coalesce(sum(reads), 0)::float8 as reads,
    coalesce(sum(read_time), 0)::float8 as read_ms,
    coalesce(sum(writes), 0)::float8 as writes,
    coalesce(sum(write_time), 0)::float8 as write_ms,
    coalesce(sum(fsyncs), 0)::float8 as fsyncs,
    coalesce(sum(fsync_time), 0)::float8 as fsync_ms,
    coalesce(sum(extends), 0)::float8 as extends,
    coalesce(sum(evictions), 0)::float8 as evictions,
    coalesce(sum(hits), 0)::float8 as hits
from
    pg_catalog.pg_stat_io
where
    object <> 'wal'
group by
    1
