-- Takes over a lane for its run. On a reconnect $4 is 1: the new epoch keeps the old backend from committing, if it
-- still lives. `emptied`: a crash emptied the unlogged table, because the load's marker row is missing.
update {schema}.lane
set epoch = epoch + $4,
    backend_pid = pg_catalog.pg_backend_pid(),
    backend_start = (select backend_start from pg_catalog.pg_stat_activity where pid = pg_catalog.pg_backend_pid())
where load_id = $1
  and lane = $2
  and run = $3
returning
    epoch,
    batches,
    exists (
        select
        from {schema}.load l
        join pg_catalog.pg_class c on c.oid = l.table_oid
        where l.load_id = $1
          and l.durability = 'unlogged'
          and c.relpersistence = 'u'
    )
    and not exists (select from {schema}.unlogged_load u where u.load_id = $1) as emptied
