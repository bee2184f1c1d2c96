-- The tables of Millstream itself, first version. {schema} is the quoted name of the schema.
create schema if not exists {schema};
revoke all on schema {schema} from public;

create table {schema}.meta (
    schema_version integer not null,
    created_at timestamptz not null default now()
);

-- Key columns and the paths they come from. A record belongs to the table's OID, not to its name.
create table {schema}.collection (
    table_oid oid primary key,
    schema_name text not null,
    table_name text not null,
    key jsonb not null,
    layout text not null default 'table',
    adopted boolean not null default false,
    created_at timestamptz not null default now()
);

-- One load. The watermark of slot s is the position before which all documents of s are committed. It is the larger of
-- floor_*[s + 1] (earlier runs) and the position of the lane that owns s. prefix_* is the highest watermark, and the
-- hash of everything before it.
create table {schema}.load (
    load_id bigint generated always as identity primary key,
    table_oid oid not null,
    collection text not null,
    mode text not null,
    key jsonb not null,
    format text not null,
    sources text[] not null,
    slot_hash_version smallint not null,
    state text not null check (state in ('running', 'stopped', 'finished')),
    stop_reason text,
    epoch integer not null,
    durability text not null,
    layout text not null,
    lanes smallint not null,
    runs integer not null default 1,
    started_at timestamptz not null default now(),
    ended_at timestamptz,
    floor_source integer[] not null,
    floor_offset bigint[] not null,
    prefix_source integer not null default 0,
    prefix_length bigint not null default 0,
    prefix_hash bytea,
    read bigint not null default 0,
    inserted bigint not null default 0,
    updated bigint not null default 0,
    unchanged bigint not null default 0,
    superseded bigint not null default 0,
    stale bigint not null default 0,
    kept bigint not null default 0,
    deleted bigint not null default 0,
    appended bigint not null default 0,
    rejected bigint not null default 0,
    bytes_read bigint not null default 0,
    reject_bytes bigint not null default 0,
    receipt jsonb
);
create index load_table_oid on {schema}.load (table_oid);

-- One lane of the running or last run of a load. It owns the slots [slot_first, slot_end).
create table {schema}.lane (
    load_id bigint not null references {schema}.load on delete cascade,
    lane smallint not null,
    run integer not null,
    epoch integer not null,
    backend_pid integer,
    backend_start timestamptz,
    slot_first smallint not null,
    slot_end smallint not null,
    source integer not null default 0,
    byte_offset bigint not null default 0,
    prefix_hash bytea,
    batches bigint not null default 0,
    read bigint not null default 0,
    inserted bigint not null default 0,
    updated bigint not null default 0,
    unchanged bigint not null default 0,
    superseded bigint not null default 0,
    stale bigint not null default 0,
    kept bigint not null default 0,
    deleted bigint not null default 0,
    appended bigint not null default 0,
    rejected bigint not null default 0,
    bytes_read bigint not null default 0,
    reject_bytes bigint not null default 0,
    primary key (load_id, lane)
) with (fillfactor = 10);

-- Documents that could not be stored, as text or, if they are not text, as base64. Of a document above 1 MiB only head
-- and tail are kept, and truncated is true. bytes is the length of the whole document.
create table {schema}.reject (
    load_id bigint not null references {schema}.load on delete cascade,
    source integer not null,
    byte_offset bigint not null,
    line bigint not null,
    reason text not null,
    detail text not null,
    document text,
    document_base64 text,
    bytes bigint not null,
    truncated boolean not null,
    rejected_at timestamptz not null default now(),
    primary key (load_id, source, byte_offset)
);
