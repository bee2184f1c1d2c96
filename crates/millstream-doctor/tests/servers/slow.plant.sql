-- A server whose statements and indexes make it slow. An empty line ends what is sent together.
create extension pg_stat_statements;
create role shop login password 'p';

-- No index finds the rows of a customer.
create table purchase (id int primary key, customer int, at int, note text);
insert into purchase select n, n % 5000, n, 'n' || n from generate_series(1, 60000) as n;

-- The statement compares the column and not its lower case.
create table modem (mac text, name text);
insert into modem select to_hex(n), n::text from generate_series(1, 10000) as n;
create unique index modem_mac on modem (lower(mac));

-- Deleting a customer reads all visits.
create table customer (id int primary key);
insert into customer select generate_series(1, 1000);
create table visit (a int, customer int references customer);
insert into visit select n, 1 + n % 900 from generate_series(1, 10000) as n;

-- Indexes that cost more than they give: a duplicate, the beginning of another, one without a reader, and one whose build
-- has failed.
create table paper (a int, b int, c text);
insert into paper select n, n, 'c' || n from generate_series(1, 2000) as n;
create index paper_b on paper (b);
create index paper_twin on paper (b);
create index paper_long on paper (c, a);
create index paper_beginning on paper (c);
create index paper_idle on paper (a);
create index paper_broken on paper (a desc);
update pg_index set indisvalid = false where indexrelid = 'paper_broken'::regclass;

-- Few values of a column are kept.
create table poor (a int);
insert into poor select generate_series(1, 10000);
alter table poor alter column a set statistics 10;

-- An index on a member that no document has.
create table device (id int primary key, doc jsonb);
insert into device select n, jsonb_build_object('mac', n) from generate_series(1, 600) as n;
create index device_mca on device ((doc ->> 'mca'));

-- Updates without room in their pages, and an only row that all sessions update.
create table crowded (id int primary key, n int);
insert into crowded select n, 0 from generate_series(1, 1000) as n;
create table counter (n int);
insert into counter values (0);

-- Dead rows that nobody removes.
create table littered (n int) with (autovacuum_enabled = off);
insert into littered select generate_series(1, 5000);

-- A column with few values in a long index.
create table event (kind int, at int);
insert into event select n % 3, n from generate_series(1, 120000) as n;
create index event_kind on event (kind);

grant select, update on purchase, modem, device, event to shop;

-- PostgreSQL 15 would add what is counted later to what analyze has seen.
select pg_stat_force_next_flush();

analyze;

-- A table that is analyzed by nobody.
create table unseen (n int) with (autovacuum_enabled = off);
insert into unseen select generate_series(1, 20000);
select pg_stat_force_next_flush();

-- What counts from here on is the work.
select pg_stat_statements_reset();

update littered set n = n + 1;
update crowded set n = 1;
update counter set n = n + 1;

update counter set n = n + 1;
delete from customer where id > 990;

set work_mem = '64kB';
select count(*) from (select c from paper order by c offset 1) as sorted;
reset work_mem;
