create temporary table millstream_judge (
    like {table} including generated including constraints including compression,
    millstream_place integer,
    millstream_turn integer
) on commit delete rows;
{create}
