-- A server whose data is in danger. An empty line ends what is sent together. Its fsync is off from the start.
-- The last numbers of a sequence, and of a narrow key.
create table small (id serial);
select setval('small_id_seq', 2000000000);
create table near (id int primary key);
insert into near select 2000000000 + generate_series(1, 1000);

-- Rules that nothing enforces: a foreign key and a trigger that are off, and a constraint that old rows may break.
create table customer (id int primary key);
create table bill (customer int references customer);
alter table bill disable trigger all;
create table watched (a int);
create trigger guard before update on watched execute function suppress_redundant_updates_trigger();
alter table watched disable trigger guard;
create table aged (id int);
insert into aged values (-1);
alter table aged add constraint positive check (id > 0) not valid;

-- Rows that cannot be told apart, on their way to a subscriber.
create table sent (a int);
insert into sent select generate_series(1, 2000);
create publication all_of_it for table sent;

-- A table that a crash empties.
create unlogged table fleeting (a int);
insert into fleeting select generate_series(1, 1000);

-- A unique index whose build has failed lets duplicates in.
create table account (mail text);
create unique index account_mail on account (mail);
update pg_index set indisvalid = false where indexrelid = 'account_mail'::regclass;
analyze;

alter system set full_page_writes = off;

alter system set synchronous_commit = off;

select pg_reload_conf();

-- A slot that nobody reads, and an archive that takes no file.
select pg_create_physical_replication_slot('forgotten', true);

select pg_logical_emit_message(true, 'a', repeat('x', 100000));

select pg_switch_wal();
