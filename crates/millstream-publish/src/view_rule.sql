-- Keeps which view is a model's, and its rule, where only the model's owner can write. A view that somebody replaces gets
-- another rule.
declare
    rule text := (
        select pg_catalog.concat_ws(' ', r.ev_class, r.xmin)
        from pg_catalog.pg_rewrite r
        where r.ev_class = {view}::text::pg_catalog.regclass::oid
          and r.rulename = '_RETURN'
    );
begin
    -- The comment needs a lock that a vacuum may hold.
    if rule is distinct from pg_catalog.col_description({parts}::text::pg_catalog.regclass::oid, 1) then
        execute pg_catalog.format('comment on column %s.millstream_generation is %L', {parts}, rule);
    end if;
end
