-- Whether the shard {shard} of a table that Citus distributes lies at this node. After a move, the old table takes writes
-- for a while that nobody sees. Citus 11.1 then keeps its placement too, in another state.
(
    select 'here'
    from pg_catalog.pg_dist_placement p
    join pg_catalog.pg_dist_local_group g on g.groupid = p.groupid
    where p.shardid = {shard}
      and p.shardstate = 1
)
