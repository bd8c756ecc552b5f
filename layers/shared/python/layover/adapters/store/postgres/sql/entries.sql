-- Episodic memory: entries of one agent and one user. Their words are found by layover.plugins.memory.text.index_words, as those of
-- messages are.

-- name: find_entries
-- The best entries, each once. The scan is exact, over the newest entries of the scope; one more than are meant
-- to be searched is read, to tell whether any was left out.
with terms as materialized (
    select w.n::integer as n, w.word::tsquery as term
    from json_array_elements_text(%(words)s::json) with ordinality as w (word, n)
),
scope as materialized (
    select row_number() over ()::integer as n, e.id, e.created_at,
           array(select terms.n from terms where e.words @@ terms.term) as hit, length(e.words) as size,
           case when e.model = %(model)s and vector_dims(e.embedding) = %(dimensions)s::integer
                then nullif(1 - (e.embedding <=> %(vector)s::halfvec), 'NaN') end as cosine
    from (
        -- What is sorted is kept narrow.
        select e.id, e.created_at, e.words, e.model, e.embedding from memory_entries e
        where e.agent = %(agent)s and e.superseded_by is null
          -- Null is the thread of an imported entry, and that of a query that leaves none out.
          and (%(not_thread)s::text is null or e.thread_id is distinct from %(not_thread)s)
        order by e.created_at desc
        limit %(most_rows)s::integer + 1
    ) e
),
-- include: ranking.sql
,
best as materialized (
    select id, created_at, lexical, cosine,
           -- power() raises where its result is too small for a float8, behind 1,074 half lives.
           own + %(recency_weight)s::float8 * power(0.5, least(%(most_half_lives)s::float8, greatest(
               extract(epoch from %(now)s::timestamptz - created_at)::float8, 0) / %(half_life_s)s::float8)) as score
    from fused
    where lexical > 0 or cosine >= %(least_cosine)s::float8
    order by score desc, created_at desc, id
    limit %(top_k)s::integer offset %(skip)s::integer
)
select json_build_object(
    'cut', (select total.number > %(most_rows)s::integer from total),
    'items', coalesce((
        select json_agg(json_build_object(
            'id', e.id, 'agent', e.agent, 'thread_id', e.thread_id, {e.entries:pairs},
            'score', b.score, 'text_score', b.lexical, 'vector_score', b.cosine)
            order by b.score desc, b.created_at desc, b.id)
        from best b
        cross join lateral (select * from memory_entries m where m.id = b.id offset 0) e), '[]'))

-- name: known_entries
-- Those that are retrieved, as they stand by now; and the version of all that is stored.
select json_build_object(
    'version', coalesce((select s.entries_version from memory_scopes s where s.agent = %(agent)s), 0),
    'items', coalesce((
        select json_agg(json_build_object(
            'id', e.id, 'agent', e.agent, 'thread_id', e.thread_id, {e.entries:pairs}) order by e.id)
        from memory_entries e
        where e.agent = %(agent)s and e.superseded_by is null
          and e.id in (select json_array_elements_text(%(ids)s::json))), '[]'))

-- name: list_entries
select coalesce(json_agg(row_to_json(e) order by e.created_at desc, e.id desc), '[]')
from (
    select e.id, e.agent, e.thread_id, {e.entries}
    from memory_entries e
    where e.agent = %(agent)s and e.superseded_by is null
      and (%(after_id)s::text is null or (e.created_at, e.id) < (%(after_at)s::timestamptz, %(after_id)s))
    order by e.created_at desc, e.id desc
    limit %(limit)s::integer
) e

-- name: list_all_entries
-- Also what was superseded: a query of its own, since an index of what is retrieved serves the other one.
select coalesce(json_agg(row_to_json(e) order by e.created_at desc, e.id desc), '[]')
from (
    select e.id, e.agent, e.thread_id, e.superseded_by, {e.entries}
    from memory_entries e
    where e.agent = %(agent)s
      and (%(after_id)s::text is null or (e.created_at, e.id) < (%(after_at)s::timestamptz, %(after_id)s))
    order by e.created_at desc, e.id desc
    limit %(limit)s::integer
) e

-- name: import_entry
-- An entry that no thread taught. Behind `lock_scope`. Answers whether it was stored.
with done as materialized (select 1 as fresh),
entered as (
-- include: insert_entries.sql
),
counted_scope as (
    update memory_scopes s set entries_version = s.entries_version + 1
    where s.agent = %(agent)s and exists (select from entered)
)
select exists (select from entered)

-- name: entry_by_hash
select row_to_json(e)
from (
    select e.id, e.agent, e.thread_id, e.superseded_by, {e.entries}
    from memory_entries e
    where e.agent = %(agent)s and e.hash = %(hash)s
) e

-- name: correct_entry
-- Whoever compares new entries with stored ones meanwhile compares them again.
with corrected as (
    update memory_entries e
    set content = %(content)s, evidence = %(content)s, source = 'user_assertion', verified = true, hash = %(hash)s,
        created_at = %(at)s::timestamptz, message_id = null, run_id = null, extractor = null, prompt_version = null,
        model = null, embedding = null,
        words = array_to_tsvector(array(select json_array_elements_text(%(words)s::json)))
    where e.id = %(id)s and e.superseded_by is null
    returning e.id, e.agent, e.thread_id, {e.entries}
),
counted as (
    update memory_scopes s set entries_version = s.entries_version + 1
    where s.agent in (select c.agent from corrected c)
)
select row_to_json(c) from corrected c

-- name: restore_entry
-- What took its place stands, too. Whoever compares new entries with stored ones meanwhile compares them again.
with restored as (
    update memory_entries e set superseded_by = null
    where e.id = %(id)s and e.superseded_by is not null
    returning e.agent
),
counted as (
    update memory_scopes s set entries_version = s.entries_version + 1
    where s.agent in (select r.agent from restored r)
)
select row_to_json(e)
from (
    select e.id, e.agent, e.thread_id, {e.entries}
    from memory_entries e
    where e.id = %(id)s
) e

-- name: delete_entry
-- With what it superseded: that is about the same matter, and would be found by nobody any more.
with recursive chain as (
    select e.id from memory_entries e where e.id = %(id)s
    union
    select e.id from chain cross join lateral (
        select m.id from memory_entries m where m.superseded_by = chain.id offset 0
    ) e
)
delete from memory_entries e using chain where e.id = chain.id returning e.id

-- name: stale_entries
select coalesce(json_agg(row_to_json(e) order by e.id), '[]')
from (
    select e.id, e.content from memory_entries e
    where e.agent = %(agent)s and e.superseded_by is null and e.id > %(after_id)s
      and (e.embedding is null or e.model is distinct from %(model)s
           or vector_dims(e.embedding) <> %(dimensions)s::integer)
    order by e.id
    limit %(limit)s::integer
) e

-- name: put_entry_vectors
update memory_entries e set model = %(model)s, embedding = v.embedding::halfvec
from json_to_recordset(%(vectors)s::json) as v (id text, embedding text)
where e.id = v.id

-- name: stale_messages
select coalesce(json_agg(row_to_json(m) order by m.id), '[]')
from (
    select e.message_id, e.thread_id, e.thread, e.branch_id, e.depth from message_embeddings e
    where e.agent = %(agent)s and e.message_id > %(after_id)s
      and (e.embedding is null or e.model is distinct from %(model)s
           or vector_dims(e.embedding) <> %(dimensions)s::integer)
    order by e.message_id
    limit %(limit)s::integer
) e
cross join lateral (
-- include: message_at.sql
) m

-- name: owners
-- One probe of the index an owner, not a walk over all threads.
with recursive found as (
    select (select min(t.resource_id) from threads t where t.resource_id > %(after)s) as id, 1 as n
    union all
    select (select min(t.resource_id) from threads t where t.resource_id > found.id), found.n + 1
    from found where found.id is not null and found.n < %(limit)s::integer
)
select id from found where id is not null order by id
