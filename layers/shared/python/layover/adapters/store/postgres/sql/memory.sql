-- What is remembered beyond messages.

-- name: is_extracted
select from extractions e where e.run_id = %(run_id)s

-- name: record_extraction
-- The row of the run goes in with the results, or nothing does. Answers whether it did, and whether the
-- thread's state is (still) the one that the new session was made from, and the scope of the entries the one that
-- they were compared with. Behind `lock_thread`, and `lock_scope` where an agent learns.
with fresh as materialized (
    select (%(session)s::json is null
            or coalesce((select s.version from thread_state s where s.thread_id = %(thread_id)s), 0)
                = %(state_version)s::integer)
        and (%(entries_version)s::integer is null
            or coalesce((select s.entries_version from memory_scopes s where s.agent = %(agent)s), 0)
                = %(entries_version)s::integer) as fresh
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
    from done
    cross join json_each_text(%(token_counts)s::json) c
    cross join lateral (
        select f.thread, f.branch_id, f.depth from messages f where f.id = c.key offset 0
    ) f
    where f.thread = (select t.key from threads t where t.id = %(thread_id)s)
      and m.thread = f.thread and m.branch_id = f.branch_id and m.depth = f.depth
      and m.token_count is distinct from c.value::integer
),
profiled as (
    -- `said`: the turn's time for each of the fields.
    insert into working_memory as w (kind, scope, key, value, said, run_id, created_at, updated_at)
    select 'profile', 'resource', %(agent)s, merged_fields('{}', %(profile)s::json), %(said)s::json, %(run_id)s,
           %(at)s::timestamptz, %(at)s::timestamptz
    from done
    where %(profile)s::json is not null and not exists (
        select from memory_scopes s where s.agent = %(agent)s and s.profile_set_at > %(said_at)s::timestamptz)
    on conflict on constraint working_memory_pkey do update
    set value = merged_fields(w.value, latest_fields(%(profile)s::json, w.said, %(said_at)s::timestamptz)),
        said = merged_fields(w.said, latest_fields(%(said)s::json, w.said, %(said_at)s::timestamptz)),
        version = w.version + 1, run_id = excluded.run_id,
        updated_at = greatest(excluded.updated_at, w.updated_at + interval '1 microsecond')
    where latest_fields(%(said)s::json, w.said, %(said_at)s::timestamptz) is not null
),
remembered as (
    insert into thread_state as s (thread_id, session, session_said, updated_at)
    select %(thread_id)s, %(session)s::json, %(session_said)s::json, %(at)s::timestamptz
    from done where %(session)s::json is not null
    on conflict on constraint thread_state_pkey do update
    set session = excluded.session, session_said = excluded.session_said, version = s.version + 1,
        updated_at = greatest(excluded.updated_at, s.updated_at + interval '1 microsecond')
),
entered as (
-- include: insert_entries.sql
),
superseded as (
-- include: supersede_entries.sql
),
counted_scope as (
    update memory_scopes s set entries_version = s.entries_version + 1
    where s.agent = %(agent)s and exists (select from entered)
),
spent as (
-- include: usage.sql
    where exists (select from done)
    on conflict on constraint usage_pkey do nothing
)
select (select count(*) from done), fresh.fresh or exists (
    select from extractions e where e.run_id = %(run_id)s)
from fresh
