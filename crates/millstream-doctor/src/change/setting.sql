-- The value that alter system has written, and why the server does not take it, if it does not. $1: the setting's name.
select
    setting,
    error
from
    pg_file_settings
where
    name = $1
    and sourcefile = current_setting('data_directory') || '/postgresql.auto.conf'
order by
    seqno desc
limit 1
