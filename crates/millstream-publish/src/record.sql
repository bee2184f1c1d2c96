-- The change record of one collection. A row holds keys that one statement changed.
create {persistence} table {record} (
    change_id bigint generated always as identity primary key,
    xid xid8 not null default pg_catalog.pg_current_xact_id(),
    changed_at timestamptz not null default pg_catalog.clock_timestamp(),
    everything boolean not null default false,
    keys bigint not null,
    {columns}
);
{storage}

-- This row stays. If it is missing, the record is unreliable: a crash of the server has emptied it together with the
-- collection, or a refresh has deleted the row to say so.
insert into {record} (keys) values (0);

-- Both functions run with the rights of the role that published. Another role may own the collection and rename a key
-- column or change its type. With a type of its own, a cast of its own would run with the publisher's rights. So the
-- functions check names and types of the key first.
create function {record_function}() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as {record_body};

create function {key_function}() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as {key_body};

create trigger {trigger}insert after insert on {table}
referencing new table as changed for each statement execute function {record_function}();
create trigger {trigger}update after update on {table}
referencing new table as changed for each statement execute function {record_function}();
create trigger {trigger}delete after delete on {table}
referencing old table as changed for each statement execute function {record_function}();
create trigger {trigger}truncate after truncate on {table}
for each statement execute function {record_function}();
-- Not `update of` the key's columns: a trigger before it may change a key that the statement does not name.
create trigger {trigger}key after update on {table}
for each row when ({key_changes}) execute function {key_function}();

-- Firing a trigger needs no right on its function, but creating one does. So nobody can attach these to another table.
revoke execute on function {record_function}(), {key_function}() from public;
