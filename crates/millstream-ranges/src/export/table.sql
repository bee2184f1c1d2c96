-- A table of ranges, the twin of a store.
create table {table} (
    start inet not null,
    "end" inet not null,
    doc jsonb not null{more},
    constraint is_a_range check (pg_catalog.family(start) = pg_catalog.family("end") and start <= "end")
)
