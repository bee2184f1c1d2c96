create table t (k text primary key, v int check (v > 0));
create function refuse() returns trigger language plpgsql as $$
begin
  raise exception 'no' using detail = 'it was ' || new.k, hint = 'look at ' || new.k;
end $$;
create function refuse_oddly() returns trigger language plpgsql as $$
begin
  raise exception 'no' using errcode = 'ZX123', detail = 'it was ' || new.k;
end $$;
create table guarded (k text);
create trigger refuse before insert on guarded for each row execute function refuse();
create table odd (k text);
create trigger refuse before insert on odd for each row execute function refuse_oddly();
create table secured (who text, k text);
alter table secured enable row level security;
create policy own on secured using (who = current_user) with check (who = current_user);
do $$
begin
  if not exists (select from pg_roles where rolname = 'reader') then
    create role reader;
  end if;
end $$;
grant insert on secured to reader;
