-- Third version of the tables: read models.

-- A read model of a collection. Its rows are in {schema}.model_ID, partitioned by generation. The model's view shows
-- the generation that `serving` names; a reader sees the rows and this row in one snapshot. The rows shown equal the
-- collection at snapshot `shows`.
create table {schema}.model (
    model_id integer generated always as identity primary key,
    table_oid oid not null,
    schema_name text not null,
    model_name text not null,
    definition jsonb not null,
    view_oid oid,
    serving smallint not null default 1,
    shows pg_snapshot,
    refreshed_at timestamptz,
    way text,
    created_at timestamptz not null default now(),
    unique (schema_name, model_name)
);
create index model_table_oid on {schema}.model (table_oid);
