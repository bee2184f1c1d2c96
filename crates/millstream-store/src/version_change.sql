-- Changes the type by which versions at a path are compared, unless tombstones of a type in $4 exist.
update {schema}.collection
set versions = versions || pg_catalog.jsonb_build_object($2::text, $3::text)
where table_oid = $1
  and not exists (
      select
      from {schema}.tombstone
      where table_oid = $1
        and version_of = any ($4::text[])
  )
