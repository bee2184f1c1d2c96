-- The shards of the table $1 in the order of their hashes, each with the node that has it, and what this node calls itself:
-- it is asked by the coordinator. A shard with several copies comes as often. What a move has left in Citus 11.1 is no copy.
with asked as materialized (
    select r.nodeid, r.result
    from pg_catalog.run_command_on_all_nodes('select metadata->>''server_id'' from pg_catalog.pg_dist_node_metadata') r
    where r.success
)
select
    s.shardid,
    s.shardminvalue::integer as first,
    s.shardmaxvalue::integer as last,
    name.parts[pg_catalog.cardinality(name.parts)] as name,
    n.nodename::text as host,
    n.nodeport as port,
    n.isactive and n.metadatasynced as is_synced,
    asked.result as server
from pg_catalog.pg_dist_shard s
cross join lateral pg_catalog.parse_ident(pg_catalog.shard_name(s.logicalrelid, s.shardid)) as name (parts)
join pg_catalog.pg_dist_placement p on p.shardid = s.shardid and p.shardstate = 1
join pg_catalog.pg_dist_node n on n.groupid = p.groupid
left join asked on asked.nodeid = n.nodeid
where s.logicalrelid::oid = $1
  and n.noderole = 'primary'
order by first, s.shardid
