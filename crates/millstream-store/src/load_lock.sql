k.locktype = 'advisory'
  and k.granted
  and k.database = (select oid from pg_catalog.pg_database where datname = pg_catalog.current_database())
  and k.classid = ({load_class})::int::oid
  and k.objid = ({load_id} & 2147483647::bigint)::int::oid
  and k.objsubid = 2
