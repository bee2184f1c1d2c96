-- Shared memory of the server, and whether it is in huge pages. `status` is there from PostgreSQL 17 on.
select
    current_setting('huge_pages') as setting,
    current_setting('huge_pages_status', true) as status,
    pg_size_bytes(current_setting('shared_memory_size'))::float8 as shared_bytes,
    nullif(current_setting('shared_memory_size_in_huge_pages', true), '')::bigint as needed
