-- The tables of the join-order benchmark that its queries join, small, with made-up rows. Only columns that queries here read.
create table kind_type (id int primary key, kind varchar(15) not null);
create table info_type (id int primary key, info varchar(32) not null);
create table link_type (id int primary key, link varchar(32) not null);
create table role_type (id int primary key, role varchar(32) not null);
create table company_type (id int primary key, kind varchar(32) not null);
create table comp_cast_type (id int primary key, kind varchar(32) not null);
create table title (
    id int primary key, title text not null, kind_id int not null, production_year int, episode_nr int, season_nr int
);
create table name (id int primary key, name text not null, gender varchar(1), name_pcode_cf varchar(5));
create table char_name (id int primary key, name text not null);
create table company_name (id int primary key, name text not null, country_code varchar(255));
create table keyword (id int primary key, keyword text not null);
create table aka_name (id int primary key, person_id int not null, name text not null);
create table aka_title (id int primary key, movie_id int not null, title text not null);
create table cast_info (
    id int primary key, person_id int not null, movie_id int not null, person_role_id int, note text, role_id int not null
);
create table complete_cast (id int primary key, movie_id int, subject_id int not null, status_id int not null);
create table movie_companies (
    id int primary key, movie_id int not null, company_id int not null, company_type_id int not null, note text
);
create table movie_info (id int primary key, movie_id int not null, info_type_id int not null, info text not null);
create table movie_info_idx (id int primary key, movie_id int not null, info_type_id int not null, info text not null);
create table movie_keyword (id int primary key, movie_id int not null, keyword_id int not null);
create table movie_link (
    id int primary key, movie_id int not null, linked_movie_id int not null, link_type_id int not null
);
create table person_info (id int primary key, person_id int not null, info_type_id int not null, info text not null, note text);

insert into kind_type select n, 'kind ' || n from generate_series(1, 7) as n;
insert into info_type select n, 'info ' || n from generate_series(1, 113) as n;
insert into link_type select n, 'link ' || n from generate_series(1, 18) as n;
insert into role_type select n, 'role ' || n from generate_series(1, 12) as n;
insert into company_type select n, 'type ' || n from generate_series(1, 4) as n;
insert into comp_cast_type select n, 'cast ' || n from generate_series(1, 4) as n;
insert into title
select n, 'title ' || n, 1 + n % 7, 1900 + n * 7 % 120, nullif(n % 500, 0), n % 40
from generate_series(1, 10000) as n;
insert into name select n, 'name ' || n, chr(102 + n % 8), chr(65 + n % 26) || n % 600 from generate_series(1, 20000) as n;
insert into char_name select n, 'character ' || n from generate_series(1, 15000) as n;
insert into company_name select n, 'company ' || n, '[' || n % 60 || ']' from generate_series(1, 10000) as n;
insert into keyword select n, 'keyword ' || n from generate_series(1, 10000) as n;
insert into aka_name select n, 1 + n * 7 % 20000, 'alias ' || n from generate_series(1, 15000) as n;
insert into aka_title select n, 1 + n * 7 % 10000, 'other title ' || n from generate_series(1, 12000) as n;
insert into cast_info
select n, 1 + n * 31 % 20000, 1 + n * 17 % 10000, 1 + n * 13 % 15000, '(voice ' || n % 9 || ')', 1 + n % 12
from generate_series(1, 80000) as n;
insert into complete_cast select n, 1 + n * 3 % 10000, 1 + n % 2, 3 + n % 2 from generate_series(1, 12000) as n;
insert into movie_companies
select n, 1 + n * 3 % 10000, 1 + n * 11 % 10000, 1 + n % 2, '(note ' || n % 50 || ')'
from generate_series(1, 26000) as n;
insert into movie_info
select n, 1 + n * 7 % 10000, 1 + n % 113, 'about ' || n % 40 from generate_series(1, 60000) as n;
insert into movie_info_idx
select n, 1 + n * 3 % 10000, 99 + n % 5, round((n % 100) / 10.0, 1)::text from generate_series(1, 14000) as n;
insert into movie_keyword select n, 1 + n * 3 % 10000, 1 + n * 7 % 10000 from generate_series(1, 40000) as n;
insert into movie_link
select n, 1 + n * 7 % 10000, 1 + n * 11 % 10000, 1 + n % 18 from generate_series(1, 12000) as n;
insert into person_info
select n, 1 + n * 7 % 20000, 1 + n % 39, 'fact ' || n, 'author ' || n % 100 from generate_series(1, 30000) as n
