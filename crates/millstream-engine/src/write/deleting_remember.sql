-- Remembers the versions of the batch's tombstones, except where a newer document is stored.
insert into {schema}.tombstone as known (table_oid, version_of, id, version)
select {oid}::oid, {version_of}, millstream_id, millstream_version
from {stage} as staged
where {run}
  and millstream_effect = 2
  and not exists (select from {table} as stored where {join})
order by millstream_id
on conflict (table_oid, version_of, id) do update
set version = excluded.version,
    deleted_at = excluded.deleted_at
where known.version <= excluded.version
