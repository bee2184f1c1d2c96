-- The body of the function that records the keys that a statement changed.
<<counted>>
declare
    changed_keys bigint;
begin
    if tg_op <> 'TRUNCATE' and {same_key} then
        -- Most statements change few rows, which are read only once.
        if pg_catalog.pg_table_size({record_literal}) < {bytes_max} then
            insert into {record} (keys, {names})
            select pg_catalog.count(*), {arrays}
            from (select * from changed limit {row_keys} + 1) as changed
            having pg_catalog.count(*) between 1 and {row_keys};
            if found then
                return null;
            end if;
        end if;
        select pg_catalog.count(*) into counted.changed_keys from changed;
        if counted.changed_keys = 0 then
            return null;
        end if;
        if counted.changed_keys <= {keys_max} and pg_catalog.pg_table_size({record_literal}) < {bytes_max} then
            insert into {record} (keys, {names})
            select pg_catalog.count(*), {arrays}
            from (select {key_names}, pg_catalog.row_number() over () / {row_keys} as millstream_part from changed) as changed
            group by changed.millstream_part;
            return null;
        end if;
    end if;
    insert into {record} (keys, everything) values (0, true);
    return null;
end
