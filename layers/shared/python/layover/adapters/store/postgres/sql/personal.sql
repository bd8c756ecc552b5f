-- All that is stored of one owner. Pages go by primary keys: no page costs more than its rows.

-- name: stored_messages
select json_build_array(m.branch_id, m.depth), json_build_object(
    'id', m.id, 'thread_id', %(thread_id)s::text, 'parent_id', m.parent_id, {m.messages:pairs})
from (
    select m.branch_id, m.depth, m.id, {m.messages},
-- include: parent.sql
    from messages m
    where m.thread = (select t.key from threads t where t.id = %(thread_id)s)
      and (m.branch_id, m.depth) > ((%(after)s::json ->> 0)::integer, (%(after)s::json ->> 1)::integer)
    order by m.branch_id, m.depth
    limit %(limit)s::integer
) m
order by m.branch_id, m.depth

-- name: stored_generations
select json_build_array(c.generation), json_build_object(
    'number', c.generation, 'kind', c.kind, 'through_message_id', c.through_message_id, 'active', c.active,
    'summary', c.summary, 'created_at', c.created_at,
    'observations', coalesce((
        select json_agg(json_build_object(
            'id', o.id, 'at', o.observed_at, 'marker', o.marker, 'text', o.content, 'parent_id', o.parent_id)
            order by o.position)
        from observations o where o.thread_id = c.thread_id and o.generation = c.generation), '[]'))
from compactions c
where c.thread_id = %(thread_id)s and c.generation > (%(after)s::json ->> 0)::integer
order by c.generation
limit %(limit)s::integer

-- name: stored_attempts
select json_build_array(i.task, i.attempt), json_build_object({i.attempts:pairs})
from iteration_log i
where i.thread_id = %(thread_id)s
  and (i.task, i.attempt) > (%(after)s::json ->> 0, (%(after)s::json ->> 1)::integer)
order by i.task, i.attempt
limit %(limit)s::integer

-- name: stored_entries
select json_build_array(e.id), json_build_object(
    'id', e.id, 'agent', e.agent, 'thread_id', e.thread_id, {e.entries:pairs}, 'superseded_by', e.superseded_by)
from memory_entries e
where e.id > %(after)s::json ->> 0
order by e.id
limit %(limit)s::integer

-- name: stored_notes
select json_build_array(w.kind, w.scope, w.key), json_build_object(
    'kind', w.kind, 'scope', w.scope, 'key', w.key, 'value', w.value, 'created_at', w.created_at,
    'updated_at', w.updated_at)
from working_memory w
where (w.kind, w.scope, w.key) > (%(after)s::json ->> 0, %(after)s::json ->> 1, %(after)s::json ->> 2)
order by w.kind, w.scope, w.key
limit %(limit)s::integer

-- name: stored_usage
select json_build_array(u.run_id, u.step), json_build_object(
    'run_id', u.run_id, 'step', u.step, 'kind', u.kind, 'agent', u.agent, 'model', u.model,
    {u.usage:pairs}, 'cost_usd', u.cost_usd, 'at', u.at)
from usage u
where (u.run_id, u.step) > (%(after)s::json ->> 0, %(after)s::json ->> 1)
order by u.run_id, u.step
limit %(limit)s::integer

-- name: usage_by_day
-- The newest day first; behind the row that `after` names. A day's cost is known only if every call's is.
with sums as (
    select (u.at at time zone 'UTC')::date as day, u.agent collate "C" as agent, u.model collate "C" as model,
           u.kind collate "C" as kind, {u.usage:sums},
           case when count(u.cost_usd) = count(*) then sum(u.cost_usd) end as cost_usd
    from usage u
    where u.at >= coalesce(%(since)s::date::timestamp at time zone 'UTC', '-infinity')
      and u.at < coalesce((least(%(until)s::date, (%(after)s::json ->> 0)::date) + 1)::timestamp at time zone 'UTC',
                          'infinity')
    group by 1, 2, 3, 4)
select row_to_json(s)
from sums s
where %(after)s::json is null
   or s.day < (%(after)s::json ->> 0)::date
   or (s.agent, s.model, s.kind) > (%(after)s::json ->> 1, %(after)s::json ->> 2, %(after)s::json ->> 3)
order by s.day desc, s.agent, s.model, s.kind
limit %(limit)s::integer

-- name: forget_threads
-- First: whoever writes for one of them finds it deleted, and what they teach is left out.
update threads t set title = null, {threads:defaults}, deleted_at = now()
where t.created_at <= %(until)s::timestamptz and t.deleted_at is null

-- name: forget_entries
delete from memory_entries e where e.created_at <= %(until)s::timestamptz

-- name: forget_notes
-- A tool that could not be stopped may have made one a moment later: of its run there is no message.
delete from working_memory w
where w.created_at <= %(until)s::timestamptz or (
    w.created_at <= %(late)s::timestamptz and w.run_id is not null and not exists (
        select from messages m join threads t on t.key = m.thread
        where m.run_id = w.run_id and t.deleted_at is null))

-- name: forget_scopes
-- What an agent's owner said last to its profile is kept where there is something to hold it against.
delete from memory_scopes s
where coalesce(s.profile_set_at <= %(until)s::timestamptz, true)
  and not exists (select from memory_entries e where e.agent = s.agent)

-- name: forget_usage
delete from usage u where u.at <= %(until)s::timestamptz

-- name: forget_texts
-- Recall looks at them, and not at their threads.
delete from message_embeddings e
where (e.thread, e.branch_id, e.depth) in (
    select d.thread, d.branch_id, d.depth
    from message_embeddings d join threads t on t.id = d.thread_id
    where t.deleted_at is not null
    limit %(limit)s::integer)
returning e.message_id

-- name: drop_threads
-- Without an agent: they were buried before the database knew them, at another time. Of a run that ended
-- behind the time the usage stays, without its tree.
with dropped as materialized (
    select d.id, d.key from threads d
    where d.deleted_at is not null and (d.created_at <= %(until)s::timestamptz or d.agent = '')
    order by d.id
    limit %(limit)s::integer
),
cut as (
    update usage u set tree = null
    where u.tree is not null and u.run_id = any(array(
        select distinct m.run_id
        from dropped
        cross join lateral (select m.run_id from messages m where m.thread = dropped.key offset 0) m))
)
delete from threads t
where t.id in (select dropped.id from dropped)
returning t.id

-- name: expire_entries
-- An older entry may be superseded by a younger one, never the other way round.
delete from memory_entries e
where e.id in (
    select d.id from memory_entries d where d.created_at < %(before)s::timestamptz limit %(limit)s::integer)
returning e.id

-- name: oldest_entry
select to_json(min(e.created_at)) from memory_entries e
