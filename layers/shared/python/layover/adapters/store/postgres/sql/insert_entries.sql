    insert into memory_entries as e (id, agent, thread_id, run_id, {entries}, {origins}, embedding, words)
    select r.id, %(agent)s, %(thread_id)s, %(run_id)s, {r.entries}, {r.origins}, r.embedding::halfvec,
           array_to_tsvector(array(select json_array_elements_text(r.words)))
    from done, json_to_recordset(%(entries)s::json) as r (
        id text, {entries:types}, {origins:types}, embedding text, words json)
    -- In one order: two runs that learn the same wait for each other, and never each for the other.
    order by r.hash
    -- What is remembered already stays as it is, unless somebody vouches for it only now. What was superseded and
    -- is said again, later than what superseded it, holds again.
    on conflict on constraint memory_entries_hash_key do update
    set thread_id = excluded.thread_id, run_id = excluded.run_id, {entries:excluded}, {origins:excluded},
        embedding = excluded.embedding, words = excluded.words, superseded_by = null
    where case when e.superseded_by is null then excluded.verified and not e.verified
          else not exists (select from memory_entries n
                           where n.id = e.superseded_by and n.created_at > excluded.created_at) end
    returning e.id, e.hash
