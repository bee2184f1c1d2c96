-- The session other than this one that runs the load into the table $1 whose only source is $2. `of_group`: it shares the
-- advisory lock of the two numbers $3 and $4.
select
    l.load_id,
    k.pid,
    coalesce(a.application_name, '') as application,
    pg_catalog.host(a.client_addr) as address,
    exists (
        select
        from pg_catalog.pg_locks g
        where {in_group}
    ) as of_group
from {schema}.load l
join pg_catalog.pg_locks k
    on {locked}
   and k.pid <> pg_catalog.pg_backend_pid()
left join pg_catalog.pg_stat_activity a on a.pid = k.pid
where l.table_oid = pg_catalog.to_regclass($1::text)::oid
  and l.sources operator(pg_catalog.=) array[$2::text]
  and l.resumable
  and l.state <> 'finished'
order by l.load_id desc
limit 1
