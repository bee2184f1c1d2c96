-- Documents of a refused row that stands for several.
if r.millstream_fold < 0 and exists (
    select
    from {table} as stored
    where {join_one}
      and stored.doc = r.doc
) then
    unchanged := unchanged + 1;
    continue;
end if;
