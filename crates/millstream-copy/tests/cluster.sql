create table numbers (n int4 primary key, text text);
create unlogged table unlogged (n int4);
insert into unlogged select n from generate_series(1, 1000) n;
create table in_space (n int4) tablespace space;
insert into in_space select n from generate_series(1, 1000) n;
create table passing as select n from generate_series(1, 1000) n;
