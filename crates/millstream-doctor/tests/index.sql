create schema plans;
create table plans.seen (
    id bigint primary key,
    mac text not null,
    site text collate "C",
    active boolean,
    n integer,
    at timestamptz,
    nu numeric(10, 2),
    f double precision,
    doc jsonb not null
);
create function plans.noisy(text) returns text language plpgsql stable as 'begin return lower($1); end';
create table plans.other (mac text, n numeric);
insert into plans.other select g::text, g from generate_series(1, 100) as g;
analyze plans.other;
