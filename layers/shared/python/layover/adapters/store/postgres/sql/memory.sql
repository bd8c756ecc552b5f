-- What is remembered beyond messages.

-- name: record_extraction
-- The row of the run goes in with the results, or nothing does. Answers whether it did, and whether the
-- thread's state is (still) the one that the new session was made from. Behind `lock_thread`.
with fresh as materialized (
    select %(session)s::json is null
        or coalesce((select s.version from thread_state s where s.thread_id = %(thread_id)s), 0)
            = %(state_version)s::integer as fresh
),
done as (
    insert into extractions (run_id, thread_id)
    select %(run_id)s, t.id from threads t, fresh
    where t.id = %(thread_id)s and t.deleted_at is null and fresh.fresh
    on conflict on constraint extractions_pkey do nothing
    returning run_id
),
titled as (
    update threads t set title = %(title)s from done
    where t.id = %(thread_id)s and t.title is null and %(title)s::text is not null
),
counted as (
    update messages m set token_count = c.value::integer
    from done, json_each_text(%(token_counts)s::json) c
    where m.thread_id = %(thread_id)s and m.id = c.key and m.token_count is distinct from c.value::integer
),
profiled as (
    insert into working_memory as w (kind, scope, key, value, run_id, created_at, updated_at)
    select 'profile', 'resource', %(agent)s, merged_fields('{}', %(profile)s::json), %(run_id)s,
           %(at)s::timestamptz, %(at)s::timestamptz
    from done where %(profile)s::json is not null
    on conflict on constraint working_memory_pkey do update
    set value = merged_fields(w.value, %(profile)s::json), version = w.version + 1, run_id = excluded.run_id,
        updated_at = greatest(excluded.updated_at, w.updated_at + interval '1 microsecond')
),
remembered as (
    insert into thread_state as s (thread_id, session, updated_at)
    select %(thread_id)s, %(session)s::json, %(at)s::timestamptz
    from done where %(session)s::json is not null
    on conflict on constraint thread_state_pkey do update
    set session = excluded.session, version = s.version + 1,
        updated_at = greatest(excluded.updated_at, s.updated_at + interval '1 microsecond')
),
entered as (
-- include: insert_entries.sql
),
superseded as (
    update memory_entries e set superseded_by = n.id
    from json_to_recordset(%(entries)s::json) as r (hash text, supersedes json)
    join entered n using (hash)
    cross join json_array_elements_text(r.supersedes) as old (id)
    where e.id = old.id and e.agent = %(agent)s and e.superseded_by is null
),
spent as (
-- include: usage.sql
    where exists (select from done)
    on conflict on constraint usage_pkey do nothing
)
select (select count(*) from done), fresh.fresh or exists (
    select from extractions e where e.run_id = %(run_id)s)
from fresh
