-- Behind `allowed`, a row or none: the generation with its observations and what it cost.
made as (
    insert into compactions (thread, thread_id, generation, kind, branch_id, after_depth, through_depth,
                             through_message_id, run_id, chain, active, summary, left_out, taken, token_count,
                             prompt_version, model, id, created_at)
    select t.key, t.id, n.next, %(kind)s::text, found.branch_id, start.depth, found.depth, %(through_id)s, found.run_id,
           case when %(kind)s::text = 'observations' then '{}' else array[n.next] end,
           %(kind)s::text <> 'observations', %(summary)s, array(select json_array_elements_text(%(left_out)s::json)),
           array(select json_array_elements_text(%(taken)s::json)), %(token_count)s::integer, %(prompt_version)s, %(model)s,
           %(id)s, %(at)s::timestamptz
    from threads t
    cross join allowed
    join found on found.thread = t.key
    cross join start
    cross join lateral (
        select 1 + coalesce(max(c.generation), 0) as next from compactions c where c.thread_id = t.id
    ) n
    where t.id = %(thread_id)s and t.deleted_at is null
    on conflict do nothing
    returning generation
),
kept as (
    insert into observations (thread_id, generation, id, position, observed_at, marker, content, parent_id)
    select %(thread_id)s, made.generation, o.id, o.n, o.at, o.marker, o.text, o.parent_id
    from made
    cross join rows from (
        json_to_recordset(%(observations)s::json) as (
            id text, at timestamptz, marker text, text text, parent_id text)
    ) with ordinality as o (id, at, marker, text, parent_id, n)
),
paid as (
-- include: usage.sql
    where exists (select from made)
    on conflict on constraint usage_pkey do nothing
)
