-- Makes a table refuse writes, whoever tries. A trigger of statements hears `copy`, `merge` and `truncate`, too, and
-- refuses before a row is looked at. It fires always, so that session_replication_role does not silence it. It calls the
-- table by the name that the table has then.
create or replace function {function}() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp
as $body$
begin
    raise exception using
        errcode = '55000',
        message = pg_catalog.format('%I.%I is frozen: it takes no writes', tg_table_schema, tg_table_name),
        hint = 'Let it take writes again: millstream freeze NAME --undo';
end
$body$;
-- Firing a trigger needs no right on its function, but creating one does.
revoke execute on function {function}() from public;
create or replace trigger {trigger} before insert or update or delete or truncate on {table}
for each statement execute function {function}();
alter table {table} enable always trigger {trigger};
