create temporary table millstream_noted (
    {columns},
    millstream_turn integer not null
) on commit delete rows;
create index on pg_temp.millstream_noted ({key});
