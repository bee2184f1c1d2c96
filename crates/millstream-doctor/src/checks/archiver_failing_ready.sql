-- Files of WAL that wait for the archive, and for how long the oldest has.
select
    count(*) as waiting,
    date_part('epoch', now() - min(modification))::float8 as seconds
from
    pg_ls_archive_statusdir()
where
    name like '%.ready'
