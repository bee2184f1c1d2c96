create temporary table millstream_replay (
    {columns},
    {document}{marks},
    millstream_place integer not null,
    millstream_turn integer not null
) on commit delete rows;
{notes}create function pg_temp.millstream_replay(
    refusing text[], refused_max bigint, may_keep boolean, tombstones boolean, screening boolean, comparing boolean,
    singly boolean
)
returns table (
    place integer, code text, message text, breach text, unfit text, inserted bigint, updated bigint, deleted bigint,
    unchanged bigint
)
language plpgsql
as {body}
