create or replace function pg_temp.millstream_unfit(document jsonb)
returns text
language plpgsql
as {body}
