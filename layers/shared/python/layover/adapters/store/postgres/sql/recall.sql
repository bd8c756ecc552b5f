-- Semantic recall. What it searches are the texts of users and assistants, each with its words (found by
-- layover.memory.words, not by the database's parser) and, where an embedder gave one, its vector.

-- name: index_messages
-- A message that is gone meanwhile is left out; one that was indexed by words alone may get its vector.
insert into message_embeddings as e (thread_id, message_id, agent, branch_id, depth, created_at, speaker, words,
                                     model, embedding)
select m.thread_id, m.id, r.agent, m.branch_id, m.depth, m.created_at,
       array(select json_array_elements_text(r.speaker)),
       array_to_tsvector(array(select json_array_elements_text(r.words))),
       r.model, r.embedding::halfvec
from json_to_recordset(%(rows)s::json) as r (
    thread_id text, message_id text, agent text, speaker json, words json, model text, embedding text)
cross join lateral (
    select m.thread_id, m.id, m.branch_id, m.depth, m.created_at from messages m where m.id = r.message_id offset 0
) m
where m.thread_id = r.thread_id
  and exists (select from threads t where t.id = r.thread_id and t.deleted_at is null)
on conflict on constraint message_embeddings_pkey do update
set speaker = excluded.speaker, words = excluded.words, model = excluded.model, embedding = excluded.embedding
where excluded.embedding is not null

-- name: common_words
-- Words that more than a quarter of the newest texts have.
with sample as materialized (
    select e.words from message_embeddings e
    where e.agent = %(agent)s
      and case when %(scope_thread)s::text is null then true else e.thread_id = %(scope_thread)s end
    order by e.created_at desc
    limit 1000
)
select word
from json_array_elements_text(%(words)s::json) word
cross join lateral (select count(*) as found from sample s where s.words @@ word::tsquery) f
where f.found > 5 and f.found * 4 > (select count(*) from sample)

-- name: recall
-- The best matches of the scope with their neighbours, in the order of the conversation. Messages are
-- searched on the path of the turn's input, before its window; in other threads, on the newest path.
with terms as materialized (
    select w.n::integer as n, w.word::tsquery as term, w.word
    from json_array_elements_text(%(words)s::json) with ordinality as w (word, n)
),
found as materialized (
    select m.thread_id, m.branch_id, m.depth from messages m where m.id = %(input_id)s
),
input as materialized (
    select found.thread_id, b.path, b.path_depths,
           least(found.depth, case when %(pinned)s::integer is null then b.window_depth else %(pinned)s::integer end)
           - 1 as last
    from found
    cross join lateral (
        select b.path, b.path_depths, b.window_depth from branches b
        where b.thread_id = found.thread_id and b.id = found.branch_id
        offset 0
    ) b
    where found.thread_id = %(thread_id)s
),
paths as materialized (
    select t.id as thread_id, s.branch_id, least(s.depth, p.last) as last
    from threads t
    cross join lateral (
        select input.path, input.path_depths, input.last from input where input.thread_id = t.id
        union all
        (select b.path, b.path_depths, newest.depth
         from branches b
         cross join lateral (
             select m.depth, m.created_at, m.id from messages m
             where m.thread_id = b.thread_id and m.branch_id = b.id
             order by m.depth desc
             limit 1
         ) newest
         where b.thread_id = t.id and not exists (select from input where input.thread_id = t.id)
         order by newest.created_at desc, newest.id desc
         limit 1)
    ) p
    cross join unnest(p.path, p.path_depths) as s (branch_id, depth)
    where t.agent = %(agent)s and t.deleted_at is null
      and case when %(scope_thread)s::text is null then true else t.id = %(scope_thread)s end
),
scope as materialized (
    select row_number() over (order by e.thread_id, e.depth)::integer as n,
           e.thread_id, e.message_id, e.depth, e.created_at, e.speaker,
           array(select terms.n from terms where e.words @@ terms.term) as hit, length(e.words) as size,
           case when e.model = %(model)s and vector_dims(e.embedding) = %(dimensions)s::integer
                then nullif(1 - (e.embedding <=> %(vector)s::halfvec), 'NaN') end as cosine
    from (
        (select * from message_embeddings e
         where %(scope_thread)s::text is null and e.agent = %(agent)s
         order by e.created_at desc
         limit %(most_rows)s::integer)
        union all
        (select * from message_embeddings e
         where e.thread_id = %(scope_thread)s::text and e.agent = %(agent)s
         order by e.created_at desc
         limit %(most_rows)s::integer)
    ) e
    join paths p on p.thread_id = e.thread_id and p.branch_id = e.branch_id and e.depth <= p.last
),
-- include: ranking.sql
,
flowed as (
    select n, thread_id, message_id, created_at, lexical, cosine,
           own + %(previous_weight)s::float8 * coalesce(lag(own) over conversation, 0)
               + %(next_weight)s::float8 * coalesce(lead(own) over conversation, 0) as signal,
           case when speaker && array(select word from terms) then %(speaker_weight)s::float8 else 0 end
           + %(recency_weight)s::float8 * power(0.5, greatest(
               extract(epoch from %(now)s::timestamptz - created_at)::float8, 0) / %(half_life_s)s::float8)
           as bonus
    from fused
    window conversation as (partition by thread_id order by n)
),
matches as materialized (
    select n, thread_id, signal + bonus as score, lexical, cosine
    from flowed
    where signal > 0
    order by signal + bonus desc, created_at desc, message_id
    limit %(top_k)s::integer
),
shown as (
    select distinct s.thread_id, s.n, s.message_id, s.depth, s.created_at
    from matches m
    join scope s on s.thread_id = m.thread_id
                and s.n between m.n - %(before)s::integer and m.n + %(after)s::integer
),
answer as (
    select shown.thread_id, shown.depth, min(shown.created_at) over (partition by shown.thread_id) as begun,
           json_build_object('message', message.json, 'match', m.n is not null, 'score', m.score,
                             'text_score', m.lexical, 'vector_score', m.cosine) as json
    from shown
    left join matches m using (n)
    cross join lateral (select row_to_json(m) as json from messages m where m.id = shown.message_id offset 0) message
)
select coalesce(json_agg(json order by begun, thread_id, depth), '[]') from answer
