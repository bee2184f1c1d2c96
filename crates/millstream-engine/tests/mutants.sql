-- What PostgreSQL makes of each line: the text of its jsonb, or null where it refuses the line.
create function mutant(line bytea, out text text) language plpgsql as $$
begin
    text := convert_from(line, 'UTF8')::jsonb::text;
exception when others then
    text := null;
end $$;

-- A load's reading of the same lines: of each key the last document that has a usable one.
create function mutant_rows(lines bytea[]) returns table (id text, doc text) language sql as $$
    select distinct on (key) key, text
    from (
        select n, d.text, d.text::jsonb #>> '{geonameid}' as key
        from unnest(lines) with ordinality as l (line, n), mutant(line) as d
        where jsonb_typeof(d.text::jsonb) = 'object'
          and jsonb_typeof(d.text::jsonb -> 'geonameid') in ('string', 'number', 'boolean')
    ) as usable
    order by key, n desc
$$;
