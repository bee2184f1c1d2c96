-- Documents still to be written that equal the stored one are left alone.
delete from pg_temp.millstream_stage as staged
where staged.ctid >= walk.first
  and millstream_fold >= 0
  and {puts}
  and exists (
        select
        from {table} as stored
        where {join}
          and stored.doc = staged.doc
    );
get diagnostics held = row_count;
unchanged := unchanged + held;
