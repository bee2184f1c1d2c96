-- The same for a later document of a key.
if r.compared and exists (
    select
    from {table} as stored
    where {join_one}
      and stored.doc = r.doc
) then
    unchanged := unchanged + 1;
    continue;
end if;
