-- A server that is in trouble now, with the sessions that the test opens. An empty line ends what is sent together.
create table seat (id int primary key, n int);
insert into seat values (1, 0), (2, 0);

-- Most of the table, and of the index of the other one, is free.
create table hollow (n int, t text);
insert into hollow select n, repeat('x', 80) from generate_series(1, 20000) as n;
delete from hollow where n % 10 <> 0;
create table sparse (n int primary key);
insert into sparse select generate_series(1, 50000);
delete from sparse where n % 10 <> 0;

vacuum analyze hollow;

vacuum analyze sparse;

-- More than shared_buffers hold.
create table large (n int, t text);
insert into large select n, repeat('x', 400) from generate_series(1, 10000) as n;

vacuum analyze large;

-- What follows is counted.
select pg_stat_reset();

-- Dead rows that vacuum may not remove, because a prepared transaction can still see them.
create table held (n int);
insert into held select generate_series(1, 5000);

begin isolation level repeatable read;
insert into held values (0);
prepare transaction 'forgotten';

update held set n = n + 1;

vacuum held;

do $$ begin
    for round in 1..50 loop
        perform count(*) from large;
        rollback;
    end loop;
end $$;

set work_mem = '64kB';
select count(*) from (select n from generate_series(1, 200000) as n order by n desc offset 1) as sorted;
reset work_mem;
