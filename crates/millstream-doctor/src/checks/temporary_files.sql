-- Temporary files of the database since the reset of its counters.
select
    temp_files as files,
    temp_bytes as bytes,
    current_setting('work_mem') as work_mem
from
    pg_stat_database as d
where
    datname = current_database()
