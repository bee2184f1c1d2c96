-- What was fixed when the server was built or its cluster made.
select
    name,
    pg_catalog.current_setting(name) as value
from
    pg_catalog.pg_settings
where
    name in (
        'block_size', 'wal_block_size', 'wal_segment_size', 'segment_size', 'data_checksums', 'debug_assertions',
        'server_encoding', 'server_version_num', 'huge_pages_status', 'ssl_library'
    )
