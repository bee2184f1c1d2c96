noted as (
    insert into pg_temp.millstream_noted ({key}, millstream_turn)
    select {key}, replay.turn
    from written
)
