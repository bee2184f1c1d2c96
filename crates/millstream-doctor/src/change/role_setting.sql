-- The value that alter role has written. $1: the role. $2: the database, or nothing for all of them. $3: the setting.
select
    substr(pair, strpos(pair, '=') + 1) as value
from
    pg_roles as r
    join pg_db_role_setting as s on s.setrole = r.oid
    left join pg_database as d on d.oid = s.setdatabase
    cross join unnest(s.setconfig) as pair
where
    r.rolname = $1::text
    and case $2::text when '' then s.setdatabase = 0 else d.datname = $2::text end
    and lower(split_part(pair, '=', 1)) = lower($3::text)
