begin;
update lab_row set n = n + 1 where id = 1;
select pg_sleep(0.002);
end;
