-- Takes documents out of the batch that are older than the tombstone of their key, of which nothing is stored.
delete from pg_temp.millstream_stage as staged
using {schema}.tombstone as gone
where gone.table_oid = {oid}
  and gone.version_of = {version_of}
  and gone.id = staged.millstream_id
  and gone.version > staged.millstream_version
