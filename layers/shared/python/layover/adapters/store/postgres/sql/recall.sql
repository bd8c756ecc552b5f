-- Semantic recall. What it searches are the texts of users and assistants, each with its words (found by
-- layover.plugins.memory.text.index_words, not by the database's parser) and, where an embedder gave one, its vector.

-- name: index_messages
-- A message that is gone meanwhile is left out, also one of a thread that is being erased (what erases it has
-- the thread's row locked); one that was indexed by words only may get its vector.
with alive as materialized (
    select t.id, t.key from threads t
    where t.id = any(array(select r.thread_id from json_to_recordset(%(rows)s::json) as r (thread_id text)))
      and t.deleted_at is null
    order by t.id
    for share
)
insert into message_embeddings as e (thread, thread_id, message_id, agent, branch_id, depth, created_at, speaker,
                                     words, model, embedding)
select m.thread, r.thread_id, m.id, r.agent, m.branch_id, m.depth, m.created_at,
       array(select json_array_elements_text(r.speaker)),
       array_to_tsvector(array(select json_array_elements_text(r.words))),
       r.model, r.embedding::halfvec
from json_to_recordset(%(rows)s::json) as r (
    thread_id text, message_id text, agent text, speaker json, words json, model text, embedding text)
cross join lateral (
    select m.thread, m.id, m.branch_id, m.depth, m.created_at from messages m
    where m.id = r.message_id and not m.refused
    offset 0
) m
where exists (select from alive where alive.id = r.thread_id and alive.key = m.thread)
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
-- The best matches of the scope with their neighbours, in the order of the conversation, and whether the scope has
-- more rows than are searched. Messages are searched on the path of the turn's input, before its window; in other
-- threads, on the newest path.
--
-- A scope of more than `whole_rows` is not ranked whole. One scan finds how near each row is, and which rows have one
-- of the words that are rare in the newest rows (`probe`); the best of both lists and their neighbours are ranked, by
-- the numbers of the whole scope. Until then a row is narrow: what is carried, sorted or kept costs more than the scan.
with asked as materialized (
    select w.n::integer as n, w.word::tsquery as term, string_to_array(w.word, '|') as alternatives
    from json_array_elements_text(%(words)s::json) with ordinality as w (word, n)
),
found as materialized (
    select m.thread, m.branch_id, m.depth from messages m where m.id = %(input_id)s
),
input as materialized (
    select b.thread_id, b.path, b.path_depths, found.depth as leaf,
           least(found.depth, case when %(pinned)s::integer is null then b.window_depth else %(pinned)s::integer end)
           - 1 as last
    from found
    cross join lateral (
        select b.thread_id, b.path, b.path_depths, b.window_depth from branches b
        where b.thread_id = %(thread_id)s and b.id = found.branch_id
        offset 0
    ) b
    where found.thread = (select t.key from threads t where t.id = %(thread_id)s)
),
paths as materialized (
    select dense_rank() over (order by t.id)::integer as place, t.id as thread_id, s.branch_id,
           least(s.depth, p.last) as last, p.leaf
    from (
        (select t.id, t.key from threads t
         where %(scope_thread)s::text is null and t.agent = %(agent)s and t.deleted_at is null)
        union all
        (select t.id, t.key from threads t
         where t.id = %(scope_thread)s::text and t.agent = %(agent)s and t.deleted_at is null)
    ) t
    cross join lateral (
        select input.path, input.path_depths, input.last, input.leaf from input where input.thread_id = t.id
        union all
        (select b.path, b.path_depths, newest.depth, newest.depth
         from branches b
         cross join lateral (
             select m.depth, m.created_at, m.id from messages m
             where m.thread = t.key and m.branch_id = b.id
             order by m.depth desc
             limit 1
         ) newest
         where b.thread_id = t.id and not exists (select from input where input.thread_id = t.id)
         order by newest.created_at desc, newest.id desc
         limit 1)
    ) p
    cross join unnest(p.path, p.path_depths) as s (branch_id, depth)
),
searched as materialized (
    -- How many rows there are, counted as far as it matters: a path has no more of them than messages, so mostly none.
    select (select count(*) from (
               (select from message_embeddings e
                where %(scope_thread)s::text is null and e.agent = %(agent)s
                order by e.created_at desc
                limit least_rows)
               union all
               (select from message_embeddings e
                where e.thread_id = %(scope_thread)s::text and e.agent = %(agent)s
                order by e.created_at desc
                limit least_rows)
           ) e) as number
    from (
        select case when sum(p.messages) > %(most_rows)s::integer then %(most_rows)s::integer + 1
                    when sum(p.messages) > %(whole_rows)s::integer then %(whole_rows)s::integer + 1
                    else 0 end as least_rows
        from (select max(leaf) + 1 as messages from paths group by place) p
    ) bound
),
-- Of a large scope: how often its newest rows have each term.
sample as materialized (
    select e.words
    from searched
    cross join lateral (
        (select e.words from message_embeddings e
         where %(scope_thread)s::text is null and e.agent = %(agent)s
         order by e.created_at desc
         limit %(sample_rows)s::integer)
        union all
        (select e.words from message_embeddings e
         where e.thread_id = %(scope_thread)s::text and e.agent = %(agent)s
         order by e.created_at desc
         limit %(sample_rows)s::integer)
    ) e
    where searched.number > %(whole_rows)s::integer
),
sampled as materialized (
    select count(*) as number from sample
),
-- `probed`: the rarest words, until a tenth of the sample has one of them; in a scope that is ranked whole, all.
terms as materialized (
    select asked.*, found.number,
           sampled.number = 0
           or (sum(found.number) over (order by found.number, asked.n) - found.number) * 10 < sampled.number as probed
    from asked
    cross join sampled
    cross join lateral (select count(*) as number from sample s where s.words @@ asked.term) found
),
probe as materialized (
    select string_agg(term::text, ' | ')::tsquery as query from terms where probed
),
rows as materialized (
    select row_number() over (order by e.place, e.depth)::integer as n, e.*
    from (
        select p.place, e.depth, e.tid, e.created_at, e.speaker && array(select unnest(alternatives) from asked) as named,
               case when e.words @@ probe.query then array(select terms.n from terms where e.words @@ terms.term)
                    else '{}' end as hit,
               length(e.words) as size,
               case when e.model = %(model)s and vector_dims(e.embedding) = %(dimensions)s::integer
                    then nullif(1 - (e.embedding <=> %(vector)s::halfvec), 'NaN') end as cosine
        from (
            (select e.*, e.ctid as tid from message_embeddings e
             where %(scope_thread)s::text is null and e.agent = %(agent)s
             order by e.created_at desc
             limit %(most_rows)s::integer)
            union all
            (select e.*, e.ctid as tid from message_embeddings e
             where e.thread_id = %(scope_thread)s::text and e.agent = %(agent)s
             order by e.created_at desc
             limit %(most_rows)s::integer)
        ) e
        join paths p on p.thread_id = e.thread_id and p.branch_id = e.branch_id and e.depth <= p.last
        cross join probe
        offset 0
    ) e
),
total as materialized (
    select count(*)::float8 as number, nullif(avg(size), 0)::float8 as size, min(cosine) as low from rows
),
weights as materialized (
    select array_agg(ln(1 + (total.number - known.number + 0.5) / (known.number + 0.5)) order by n) as list
    from terms
    cross join total
    cross join sampled
    left join (
        select term as n, count(*) as number
        from rows cross join unnest(hit) as term
        where hit <> '{}'
        group by term
    ) found using (n)
    cross join lateral (
        select case when probed then coalesce(found.number, 0)
                    else terms.number * total.number / sampled.number end as number
    ) known
),
large as materialized (
    select from searched where number > %(whole_rows)s::integer
),
chosen as materialized (
    select distinct seed.n + step as n
    from (
        (select n
         from rows
         where cosine is not null and exists (select from large)
         order by cosine desc
         limit %(candidates)s::integer)
        union all
        (select n
         from rows cross join total cross join weights
         where hit <> '{}' and exists (select from large)
         order by (select sum(weights.list[term]) from unnest(hit) as term)
                  / (1 + 0.5 * (0.7 + 0.3 * rows.size / total.size)) desc
         limit %(candidates)s::integer)
    ) seed
    cross join generate_series(-2, 2) as step
),
scope as materialized (
    select * from rows where not exists (select from large)
    union all
    select rows.n, place, rows.depth, tid, rows.created_at, named,
           case when hit = '{}' then array(select terms.n from terms where e.words @@ terms.term) else hit end,
           size, cosine
    from rows
    join message_embeddings e on e.ctid = tid
    -- In a case, so that it is a filter with a hash: a join of unknown sizes would be a nested loop.
    where case when exists (select from large) then rows.n in (select n from chosen) end
),
-- include: scoring.sql
,
flowed as (
    -- Of a large scope not every row is ranked: the row before the second neighbour may be missing.
    select n, place, created_at, lexical, cosine, own,
           own + case when lag(n) over conversation = n - 1
                      then %(previous_weight)s::float8 * lag(own) over conversation else 0 end
               + case when lead(n) over conversation = n + 1
                      then %(next_weight)s::float8 * lead(own) over conversation else 0 end
               + %(second_previous_weight)s::float8
                 * case when lag(n, 2) over conversation = n - 2 then lag(own, 2) over conversation
                        when lag(n) over conversation = n - 2 then lag(own) over conversation else 0 end
               + %(second_next_weight)s::float8
                 * case when lead(n, 2) over conversation = n + 2 then lead(own, 2) over conversation
                        when lead(n) over conversation = n + 2 then lead(own) over conversation else 0 end
               as signal,
           case when named then %(speaker_weight)s::float8 else 0 end
           + %(recency_weight)s::float8 * power(0.5, greatest(
               extract(epoch from %(now)s::timestamptz - created_at)::float8, 0) / %(half_life_s)s::float8)
           as bonus,
           case when created_at - lag(created_at) over conversation < %(session_gap)s::interval
                then 0 else 1 end as begins
    from fused
    window conversation as (partition by place order by n)
),
sessions as (
    -- Counted over what is ranked, as a scope's other rows are too many.
    select *, sum(begins) over (order by place, n rows unbounded preceding) as session from flowed
),
matches as materialized (
    select n, place, score, lexical, cosine
    from (
        select *, signal + bonus + %(session_weight)s::float8 * max(own) over (partition by session) as score
        from sessions
    ) s
    where signal > 0
    order by score desc, created_at desc, n
    limit %(top_k)s::integer
),
shown as (
    select r.place, r.n, r.tid, r.created_at
    from rows r
    where case when true then (r.place, r.n) in (
        select m.place, m.n + step
        from matches m cross join generate_series(-%(before)s::integer, %(after)s::integer) as step
    ) end
),
answer as (
    select shown.n, shown.place, min(shown.created_at) over (partition by shown.place) as begun,
           json_build_object('message', message.json, 'match', m.n is not null, 'score', m.score,
                             'text_score', m.lexical, 'vector_score', m.cosine, 'place', shown.n) as json
    from shown
    left join matches m using (n)
    join message_embeddings e on e.ctid = shown.tid
    cross join lateral (
        select row_to_json(m) as json
        from (
-- include: message_at.sql
        ) m
    ) message
)
select coalesce(json_agg(json order by begun, place, n), '[]'), (select number > %(most_rows)s::integer from searched)
from answer
