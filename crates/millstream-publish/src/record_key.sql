-- The body of the function that records one row: the former key of a row whose key was changed or, for the trigger with an
-- argument, the key of a row that a replication has written or deleted.
begin
    -- Where a restore has enabled that trigger for all sessions, the triggers of statements record the rest.
    if tg_nargs > 0 and pg_catalog.current_setting('session_replication_role') <> 'replica' then
        return null;
    end if;
    if {same_key} and pg_catalog.pg_table_size({record_literal}) < {bytes_max} then
        insert into {record} (keys, {names}) values (1, {row_arrays});
    -- A transaction writes this row once. The row of the statement's trigger does not replace it: the record may be
    -- small again when that trigger runs.
    elsif not coalesce((select everything and xid = pg_catalog.pg_current_xact_id()
                        from {record} order by change_id desc limit 1), false) then
        insert into {record} (keys, everything) values (0, true);
    end if;
    return null;
end
