-- Records a collection. If it is recorded already, its name is updated, and its key, because somebody may have changed the
-- type of a key column. Documents that wait in segments have the key that they came with.
insert into {schema}.collection as recorded (table_oid, schema_name, table_name, key, adopted)
values ($1, $2, $3, ($4::text)::jsonb, $5)
on conflict (table_oid) do update
set schema_name = excluded.schema_name,
    table_name = excluded.table_name,
    key = case
        when exists (select from {schema}.segment s where s.table_oid = excluded.table_oid) then recorded.key
        else excluded.key
    end
