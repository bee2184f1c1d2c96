-- What PostgreSQL makes of a document and of the key columns in it: an error, or per column the
-- kind of the value, its text, and the hexadecimal wire form of the typed value (null: refused), by an
-- expression over its text and kind.
create function judge(
    document bytea,
    paths text[],
    types text[],
    casts text[],
    out error text,
    out kinds text[],
    out texts text[],
    out wires text[]
) language plpgsql as $$
declare
    doc jsonb;
    path text[];
    send text;
    wire text;
begin
    begin
        doc := convert_from(document, 'UTF8')::jsonb;
    exception when others then
        error := sqlstate || ' ' || sqlerrm;
        return;
    end;
    for n in 1..cardinality(paths) loop
        path := paths[n]::text[];
        kinds[n] := jsonb_typeof(doc #> path);
        texts[n] := doc #>> path;
        select typsend::text into strict send from pg_type where oid = types[n]::regtype;
        begin
            execute format('select encode(%s(%s), ''hex'') from (select $1 #>> $2 as text, jsonb_typeof($1 #> $2) as kind) _',
                send, casts[n]) into wire using doc, path;
        exception when others then
            wire := null;
        end;
        wires[n] := wire;
    end loop;
end $$;
