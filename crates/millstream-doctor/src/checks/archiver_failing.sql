-- Whether this server archives its WAL, and how that goes.
select
    current_setting('archive_mode') = 'always'
        or current_setting('archive_mode') = 'on' and not pg_is_in_recovery() as archives,
    current_setting('archive_command') not in ('', '(disabled)')
        or coalesce(current_setting('archive_library', true), '') <> '' as has_command,
    failed_count as failed,
    last_failed_wal as last_failed,
    coalesce(last_failed_time > coalesce(last_archived_time, '-infinity'), false) as is_failing,
    date_part('epoch', now() - last_archived_time)::float8 as archived_ago,
    pg_size_bytes(current_setting('wal_segment_size')) as segment_bytes
from
    pg_stat_archiver
