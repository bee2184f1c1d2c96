from {schema}.reject r
join {schema}.load l using (load_id)
where l.table_oid = $1
    and ($2::bigint is null or r.load_id = $2)
    and ($3::text is null or r.reason = $3)
    and ($4::float8 is null or r.rejected_at < pg_catalog.now() - pg_catalog.make_interval(secs => $4))
