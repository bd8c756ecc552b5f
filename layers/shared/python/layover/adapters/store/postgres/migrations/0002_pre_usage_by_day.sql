-- What a provider charged for writing its cache, and a user's usage by day.
alter table usage add column cache_write_input_tokens bigint not null default 0;
create index usage_at_idx on usage (resource_id, at);
