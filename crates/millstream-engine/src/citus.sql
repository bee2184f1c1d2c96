-- Whether the extension Citus is installed, and in a version with the tables that we read.
select
    exists (select from pg_catalog.pg_extension where extname = 'citus') as installed,
    not exists (
        select
        from pg_catalog.unnest(array['local_group', 'node', 'partition', 'placement', 'shard']) as needed (name)
        where pg_catalog.to_regclass('pg_catalog.pg_dist_' || needed.name) is null
    ) as has_tables
