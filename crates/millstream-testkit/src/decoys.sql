-- Operators and functions in the schema public that a statement finds in place of PostgreSQL's own, unless it names
-- those by their schema or gives them exactly their types. Each fails when it is called.
set search_path = pg_catalog, pg_temp;
do $decoys$
declare
    numbers constant text[] := '{int2,int4,int8,oid,numeric,float8,xid,xid8,regclass,regproc,regtype,regrole}';
    texts constant text[] := '{text,varchar,bpchar,name,"\"char\""}';
    others constant text[] := '{bool,bytea,json,jsonb,uuid,tid,date,timestamp,timestamptz,interval,pg_lsn,inet,pg_snapshot,
                                int2vector,oidvector}';
    operators constant text[] := '{=,<>,<,<=,>,>=,||,+,-,*,/,%,&,|,&&,<@,@>,->,->>,#>,#>>,?,~,!~,~~,!~~,^@}';
    of_one constant text[] := '{unnest,array_agg,count,min,max,to_jsonb,to_json,cardinality,array_ndims,json_agg,jsonb_agg,
                                first_value,last_value,lag,bool_or,concat,quote_literal,quote_nullable,octet_length,length}';
    of_text_and_one constant text[] := '{concat_ws,format,array_to_string,array_append,array_position,jsonb_build_object,
                                         json_build_object,jsonb_object_agg,array_length}';
    pair record;
    name text;
    arguments text;
begin
    for pair in
        with every (type) as (select unnest(numbers || texts || others))
        select one, other from unnest(numbers) as one, unnest(numbers) as other
        union
        select one, other from unnest(texts) as one, unnest(texts) as other
        union
        select type, type from every
        union
        select type || '[]', type || '[]' from every
        union
        select 'jsonb', unnest('{text,varchar,name,int2,int8}'::text[])
    loop
        arguments := format('%s, %s', pair.one, pair.other);
        execute format('create function public.decoy(%s) returns bool language plpgsql as %L', arguments,
                       format('begin raise exception ''decoy: %s''; end', arguments));
        foreach name in array operators loop
            if to_regoperator(format('pg_catalog.%s(%s)', name, arguments)) is null then
                execute format('create operator public.%s (leftarg = %s, rightarg = %s, function = public.decoy)',
                               name, pair.one, pair.other);
            end if;
        end loop;
        continue when pair.one <> pair.other;
        for name, arguments in
            select f, pair.one from unnest(of_one) as f
            union all
            select f, 'text, ' || pair.one from unnest(of_text_and_one) as f
        loop
            if to_regprocedure(format('pg_catalog.%I(%s)', name, arguments)) is null then
                execute format('create function public.%I(%s) returns bool language plpgsql as %L', name, arguments,
                               format('begin raise exception ''decoy: %s(%s)''; end', name, arguments));
            end if;
        end loop;
    end loop;
end
$decoys$;
reset search_path;
