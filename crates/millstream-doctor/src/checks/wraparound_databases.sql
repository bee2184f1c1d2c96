-- Databases that this role cannot connect to, or nobody, whose oldest rows are not frozen. $1, $2: the least ages in
-- transactions and in multixacts. $3: at most so many.
select
    datname as name,
    age(datfrozenxid)::bigint as xid_age,
    mxid_age(datminmxid)::bigint as mxid_age,
    datallowconn as may_connect
from
    pg_database
where
    not (datallowconn and not datistemplate and has_database_privilege(oid, 'connect'))
    and (age(datfrozenxid) >= $1::float8 or mxid_age(datminmxid) >= $2::float8)
order by
    greatest(age(datfrozenxid), mxid_age(datminmxid)) desc
limit $3
