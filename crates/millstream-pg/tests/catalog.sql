create schema "Odd Schema";
create domain "Odd Schema".code as text check (value <> '');
create table "Odd Schema"."A table" (
  "Key A" "Odd Schema".code collate "C" not null,
  b numeric(10,2) default 1,
  c int generated always as identity,
  d text generated always as ("Key A" || 'x') stored,
  doc jsonb compression pglz not null,
  gone int,
  constraint positive check (b > 0),
  constraint "A key" primary key (b, "Key A") include (c)
) with (fillfactor = 70);
alter table "Odd Schema"."A table" drop column gone;
create unique index plain on "Odd Schema"."A table" (c) nulls not distinct;
create unique index partial on "Odd Schema"."A table" (b) where b > 5;
create unique index expression on "Odd Schema"."A table" (lower("Key A"));
create index second on "Odd Schema"."A table" (doc);
alter table "Odd Schema"."A table" add constraint late unique (c, b) deferrable;
alter table "Odd Schema"."A table" add constraint own foreign key (c) references "Odd Schema"."A table" (c);
create function noop() returns trigger language plpgsql as 'begin return new; end';
create trigger before_row before insert or update on "Odd Schema"."A table" for each row execute function noop();
create trigger after_all after delete or truncate on "Odd Schema"."A table" for each statement execute function noop();
create trigger asleep after insert on "Odd Schema"."A table" for each row execute function noop();
alter table "Odd Schema"."A table" disable trigger asleep;
create rule quiet as on delete to "Odd Schema"."A table" do instead nothing;
alter table "Odd Schema"."A table" enable row level security;
create table parted (k int primary key) partition by hash (k);
create table parted_0 partition of parted for values with (modulus 1, remainder 0);
create unlogged table fleeting (k text);
create view seen as select 1 as one;
create role catalog_reader;
grant usage on schema "Odd Schema" to catalog_reader;
grant select, insert on "Odd Schema"."A table" to catalog_reader;
