-- Records a batch in its lane's row, in the batch's transaction. Fails with a division by zero, and so aborts the
-- transaction, if another run owns the lane, or if the collection's table has another name than when the run began. It
-- has to be an error, because the commit may already be on its way. `filled`: documents of a load may be in the tables
-- that this transaction has locked to write, if they have a page (unfilled.rs); an update locks all partitions. A batch
-- without documents ($7) only locks. The size of a table is asked behind `case`, because that waits for its lock, and
-- others may hold it. The row of the collection comes last, as for all who lock it.
with moved as (
    update {schema}.lane
    set batches = batches + 1,
        source = $4,
        byte_offset = $5,
        prefix_hash = $6,
        {added},
        reject_bytes = reject_bytes + $18,
        outcomes = case
            when $22::bigint[] is null then outcomes
            else (
                select pg_catalog.array_agg(coalesce(before.n, 0) + batch.n order by batch.i)
                from pg_catalog.unnest($22::bigint[]) with ordinality as batch (n, i)
                left join pg_catalog.unnest(outcomes) with ordinality as before (n, i) using (i)
            )
        end
    where load_id = $1
      and lane = $2
      and epoch = $3
      and exists (
          select
          from pg_catalog.pg_class c
          join pg_catalog.pg_namespace n on n.oid = c.relnamespace
          where c.oid = $19
            and c.relname = $20
            and n.nspname = $21
      )
    returning 1
),
filled as (
    update {schema}.collection k
    set files = pg_catalog.array_to_string(
        array(
            select words.word
            from pg_catalog.unnest(pg_catalog.string_to_array(k.files, ' ')) with ordinality as words (word, n)
            where words.word <> all (
                select 'unfilled:' || l.relation::text
                from pg_catalog.pg_locks l
                where l.relation is not null
                  and case
                          when l.pid = pg_catalog.pg_backend_pid() and l.mode = 'RowExclusiveLock'
                              then coalesce(pg_catalog.pg_relation_size(l.relation), 0) > 0
                          else false
                      end
            )
            order by words.n
        ),
        ' '
    )
    where k.table_oid = $19
      and $7::bigint > 0
      and pg_catalog.strpos(k.files, ' unfilled:') > 0
      and exists (
          select
          from pg_catalog.pg_locks l
          where pg_catalog.strpos(k.files || ' ', ' unfilled:' || l.relation::text || ' ') > 0
            and case
                    when l.pid = pg_catalog.pg_backend_pid() and l.mode = 'RowExclusiveLock'
                        then pg_catalog.pg_relation_size(l.relation) > 0
                    else false
                end
      )
)
select 1 / pg_catalog.count(*) from moved
