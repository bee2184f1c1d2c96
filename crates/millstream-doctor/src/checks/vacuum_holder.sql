-- What keeps vacuum from removing dead row versions of this database's tables: the session, standby, slot or prepared
-- transaction with the oldest snapshot. A vacuum holds nothing, and the catalog_xmin of a slot only the catalogs.
-- $1: the snapshot must be so many seconds old, or $2: so many transactions. Of standbys and slots no time is known.
select
    kind,
    name,
    age::bigint as age,
    seconds
from (
    select
        case when backend_type = 'walsender' then 'standby' else 'session' end as kind,
        format('%s of %s (process %s, %s)', coalesce(nullif(application_name, ''), 'a session'),
               coalesce(usename, 'nobody'), pid, coalesce(state, 'in the background')) as name,
        greatest(age(backend_xmin), age(backend_xid)) as age,
        -- A statement takes a new snapshot, unless the transaction has an id. One that keeps its first snapshot is found by
        -- the age of that. The one statement of a standby is as old as its connection.
        case when backend_type <> 'walsender' then date_part('epoch', now() - case
            when state = 'active' and backend_xid is null then query_start else xact_start
        end) end::float8 as seconds
    from
        pg_stat_activity
    where
        coalesce(backend_xmin, backend_xid) is not null
        and pid <> pg_backend_pid()
        and (datname = current_database() or datname is null)
        and pid not in (select p.pid from pg_stat_progress_vacuum as p)
    union all
    select
        'slot',
        format('replication slot %s', slot_name),
        age(xmin),
        null
    from
        pg_replication_slots
    where
        xmin is not null
    union all
    select
        'prepared',
        format('prepared transaction %L of %s', gid, owner),
        age(transaction),
        date_part('epoch', now() - prepared)::float8
    from
        pg_prepared_xacts
    where
        database = current_database()
) as holders
where
    seconds >= $1::float8
    or age >= $2::float8
order by
    age desc
limit 1
