-- A trigger can keep a row from being deleted, and the server then reports success.
if exists (
    select
    from {stage} as staged
    where {run}
      and millstream_effect = 2
      and exists (select from {table} as stored where {join} and ({condition}) is true)
) then
    raise sqlstate '{dropped}';
end if;
