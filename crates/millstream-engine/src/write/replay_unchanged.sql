-- Skip documents that equal the stored one. Only the first of each key: a later one is compared with what the earlier
-- ones leave.
delete from pg_temp.millstream_replay as staged
where millstream_turn = 0
  and {puts}
  and exists (
        select
        from {table} as stored
        where {join}
          and (stored.doc = staged.doc) is true
    );
get diagnostics unchanged = row_count;
