-- The repairs of the faults in danger.plant.sql.
alter table small alter column id type bigint;
alter sequence small_id_seq as bigint;
alter table near alter id type bigint;
alter table bill enable trigger all;
alter table watched enable trigger guard;
update aged set id = 1;
alter table sent add primary key (a);
alter table fleeting set logged;
analyze;

alter table aged validate constraint positive;

reindex index account_mail;

select pg_drop_replication_slot('forgotten');

alter system set fsync = on;

alter system reset full_page_writes;

alter system reset synchronous_commit;

alter system set archive_command = '/bin/true';

select pg_reload_conf();
