g.pid = k.pid
  and g.locktype = 'advisory'
  and g.granted
  and g.database = k.database
  and g.classid = ($3::int)::oid
  and g.objid = ($4::int)::oid
  and g.objsubid = 2
