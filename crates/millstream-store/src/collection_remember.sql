-- Records a collection. If it is recorded already, its name is updated. So is its key, if somebody has changed the type of a
-- key column: a load may spell a key otherwise, as in timestamptz:epoch, but not give it another type. Documents that wait
-- in segments have the key that they came with. What it stores of its documents never changes: readers would not know which
-- document has what.
insert into {schema}.collection as recorded (table_oid, schema_name, table_name, key, adopted, doc)
values ($1, $2, $3, ($4::text)::jsonb, $5, $6)
on conflict (table_oid) do update
set schema_name = excluded.schema_name,
    table_name = excluded.table_name,
    key = case
        when not exists (select from {schema}.segment s where s.table_oid = excluded.table_oid)
             and exists (
                 select
                 from pg_catalog.jsonb_array_elements(recorded.key) with ordinality as old (part, n)
                 join pg_catalog.jsonb_array_elements(excluded.key) with ordinality as new (part, n)
                   on new.n operator(pg_catalog.=) old.n
                 where pg_catalog.split_part(old.part operator(pg_catalog.->>) 'type'::text, ':', 1)
                       operator(pg_catalog.<>)
                       pg_catalog.split_part(new.part operator(pg_catalog.->>) 'type'::text, ':', 1)
             )
            then excluded.key
        else recorded.key
    end
returning doc
