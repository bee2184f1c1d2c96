-- Records a collection. If it is recorded already, only its name is updated, because its key cannot change.
insert into {schema}.collection (table_oid, schema_name, table_name, key, adopted)
values ($1, $2, $3, ($4::text)::jsonb, $5)
on conflict (table_oid) do update
set schema_name = excluded.schema_name,
    table_name = excluded.table_name
