-- Working memory, profiles, the state of a thread and its iteration log.
--
-- A write that belongs to a thread comes behind `lock_thread` in its pipeline: writers of one thread take turns,
-- each statement sees what the one before has written, and a thread that is being erased takes no more.

-- name: lock_thread
select from threads t where t.id = %(thread_id)s and t.deleted_at is null for no key update

-- name: lock_scope
-- What an agent learns of a user and what the user does to it take turns. The row has to be there to be locked.
insert into memory_scopes as s (agent) values (%(agent)s)
on conflict on constraint memory_scopes_pkey do update set agent = excluded.agent

-- name: set_profile
-- Behind `lock_scope`: what was said before says nothing to the profile any more, whenever it is learned.
update memory_scopes s set profile_set_at = greatest(s.profile_set_at, %(at)s::timestamptz)
where s.agent = %(agent)s

-- name: read_notes
-- In the order of the keys; version 0 where there is no note.
select coalesce(json_agg(json_build_object(
    'key', json_build_object('kind', k.kind, 'scope', k.scope, 'key', k.key),
    'value', w.value, 'version', coalesce(w.version, 0), 'created_at', w.created_at,
    'updated_at', w.updated_at, 'run_id', w.run_id)
    order by k.n), '[]')
from rows from (
    json_to_recordset(%(keys)s::json) as (kind text, scope text, key text)
) with ordinality as k (kind, scope, key, n)
left join working_memory w on w.kind = k.kind and w.scope = k.scope and w.key = k.key

-- name: replace_note
-- Another version than the expected one: nothing is written.
insert into working_memory as w (kind, scope, key, thread_id, value, run_id, created_at, updated_at)
select %(kind)s, %(scope)s, %(key)s, %(thread_id)s, %(value)s::json, %(run_id)s, %(at)s::timestamptz,
       %(at)s::timestamptz
where (%(thread_id)s::text is null
       or exists (select from threads t where t.id = %(thread_id)s and t.deleted_at is null))
  and (coalesce(%(expected)s::integer, 0) = 0
       or exists (select from working_memory o
                  where o.kind = %(kind)s and o.scope = %(scope)s and o.key = %(key)s))
on conflict on constraint working_memory_pkey do update
set value = excluded.value, said = null, version = w.version + 1, run_id = excluded.run_id,
    updated_at = greatest(excluded.updated_at, w.updated_at + interval '1 microsecond')
where %(expected)s::integer is null or w.version = %(expected)s::integer
returning version

-- name: delete_note
delete from working_memory w where w.kind = %(kind)s and w.scope = %(scope)s and w.key = %(key)s

-- name: read_state
select json_build_object(
    'session', s.session, 'session_said', coalesce(s.session_said, '{}'), 'plan', s.plan, 'version', coalesce(s.version, 0), 'attempts', (
        select coalesce(json_agg(row_to_json(a) order by a.created_at, a.task, a.attempt), '[]') from (
            select {i.attempts}
            from iteration_log i where i.thread_id = %(thread_id)s
            order by i.created_at desc, i.task desc, i.attempt desc
            limit %(limit)s::integer
        ) a))
from (select %(thread_id)s::text as thread_id) t
left join thread_state s on s.thread_id = t.thread_id

-- name: write_plan
insert into thread_state as s (thread_id, plan, updated_at)
select t.id, %(plan)s::json, %(at)s::timestamptz
from threads t where t.id = %(thread_id)s and t.deleted_at is null
on conflict on constraint thread_state_pkey do update
set plan = excluded.plan, version = s.version + 1,
    updated_at = greatest(excluded.updated_at, s.updated_at + interval '1 microsecond')
returning version

-- name: log_attempt
insert into iteration_log (thread_id, task, attempt, id, run_id, action, result, error, diagnosis, fix_applied,
                           created_at)
select t.id, %(task)s, 1 + coalesce((
           select max(i.attempt) from iteration_log i where i.thread_id = t.id and i.task = %(task)s), 0),
       %(id)s, %(run_id)s, %(action)s, %(result)s, %(error)s, %(diagnosis)s, %(fix_applied)s,
       %(created_at)s::timestamptz
from threads t where t.id = %(thread_id)s and t.deleted_at is null
on conflict on constraint iteration_log_id_key do nothing

-- name: attempt_of
select i.attempt from iteration_log i where i.thread_id = %(thread_id)s and i.id = %(id)s

-- name: attempts
select coalesce(json_agg(row_to_json(a) order by a.created_at, a.task, a.attempt), '[]') from (
    select {i.attempts}
    from iteration_log i
    where i.thread_id = %(thread_id)s and (%(task)s::text is null or i.task = %(task)s)
    order by i.created_at desc, i.task desc, i.attempt desc
    limit %(limit)s::integer
) a
