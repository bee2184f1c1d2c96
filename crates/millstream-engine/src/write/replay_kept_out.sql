-- A trigger can drop a row or store it under another key, and the server then reports success. So each staged row must
-- be noted under its key, unless the mode leaves the stored row as it is, and no other key may be noted.
if exists (
    select
    from pg_temp.millstream_replay as staged
    where {rows}
      and {puts}
      and not exists (select from pg_temp.millstream_noted as stored where {noted})
      and not exists (select from {table} as stored where {join} and {leaves})
) or (
    select pg_catalog.count(*)
    from pg_temp.millstream_replay as staged
    where {rows}
      and {puts}
      and exists (select from pg_temp.millstream_noted as stored where {noted})
) <> {written} then
    raise sqlstate '{dropped}';
end if;
