-- The change record of one collection: a row names the keys that one statement changed.
create {persistence} table {record} (
    change_id bigint generated always as identity primary key,
    xid xid8 not null default pg_catalog.pg_current_xact_id(),
    changed_at timestamptz not null default pg_catalog.clock_timestamp(),
    everything boolean not null default false,
    keys bigint not null,
    {columns}
);
{storage}

-- This line stays. Where it is missing, a crash of the server has emptied the record, and the collection.
insert into {record} (keys) values (0);

-- Both functions write with the rights of who published. The owner of the collection, who may be another, can give
-- a column of the key another name or type; of a type of their own, a cast of their own would make the key.
create function {record_function}() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $record$
<<counted>>
declare
    changed_keys bigint;
begin
    if tg_op <> 'TRUNCATE' and {same_key} then
        -- What most statements change is looked at once.
        if pg_table_size({record_literal}) < {bytes_max} then
            insert into {record} (keys, {names})
            select count(*), {arrays}
            from (select * from changed limit {row_keys} + 1) as changed
            having count(*) between 1 and {row_keys};
            if found then
                return null;
            end if;
        end if;
        select count(*) into counted.changed_keys from changed;
        if counted.changed_keys = 0 then
            return null;
        end if;
        if counted.changed_keys <= {keys_max} and pg_table_size({record_literal}) < {bytes_max} then
            insert into {record} (keys, {names})
            select count(*), {arrays}
            from (select {key_names}, row_number() over () / {row_keys} as millstream_part from changed) as changed
            group by changed.millstream_part;
            return null;
        end if;
    end if;
    insert into {record} (keys, everything) values (0, true);
    return null;
end
$record$;

create function {key_function}() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $key$
begin
    if {same_key} and pg_table_size({record_literal}) < {bytes_max} then
        insert into {record} (keys, {names}) values (1, {old_arrays});
    -- One line is enough for a transaction. That of its statement is not: the record may be small again by then.
    elsif not coalesce((select everything and xid = pg_current_xact_id()
                        from {record} order by change_id desc limit 1), false) then
        insert into {record} (keys, everything) values (0, true);
    end if;
    return null;
end
$key$;

create trigger {trigger}insert after insert on {table}
referencing new table as changed for each statement execute function {record_function}();
create trigger {trigger}update after update on {table}
referencing new table as changed for each statement execute function {record_function}();
create trigger {trigger}delete after delete on {table}
referencing old table as changed for each statement execute function {record_function}();
create trigger {trigger}truncate after truncate on {table}
for each statement execute function {record_function}();
-- Not of the key's columns alone: a trigger before it may change a key that the statement does not name.
create trigger {trigger}key after update on {table}
for each row when ({key_changes}) execute function {key_function}();

-- To fire them takes no right, to hang them on another table does.
revoke execute on function {record_function}(), {key_function}() from public;
