-- The metrics of a check, and for each million of its documents what two readings of load_counters.sql differ by.
select
    :'checked'::jsonb || pg_catalog.jsonb_object_agg(
        counter.name || '_per_million',
        greatest(
            pg_catalog.round(
                (counter.value::numeric - (:'before'::jsonb ->> counter.name)::numeric) * 1000000
                / (:'checked'::jsonb ->> 'rows')::numeric
            ),
            0
        )
    )
from
    pg_catalog.jsonb_each_text(:'after'::jsonb) as counter (name, value);
