-- What a replication applies. The worker of a subscription fires the triggers of rows, and no triggers of statements but that
-- of truncate. So a trigger of rows fires in its sessions, and in those that set session_replication_role, in place of the
-- triggers of statements. The former key of a changed row is recorded everywhere.
create trigger {trigger}row after insert or update or delete on {table}
for each row execute function {key_function}('row');
alter table {table}
    enable replica trigger {trigger}row,
    enable always trigger {trigger}truncate,
    enable always trigger {trigger}key
