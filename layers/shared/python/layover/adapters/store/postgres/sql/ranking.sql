-- Ranking (docs/retrieval.md#ranking): of a materialized list `scope` with n, hit (numbers of the terms that the
-- row has),
-- size (its number of words) and cosine (null: no vector of this model), and of `terms` with n, makes `fused`:
-- the rows of scope with lexical, similarity and own, the weighted sum of both, each brought to 0..1 over the
-- scope. A word weighs the more the fewer rows have it, so no list of stop words is needed; how often a row
-- has it made no difference.
-- Rows are never joined with rows: a planner that knows nothing of the scope's size takes nested loops.
total as materialized (
    select count(*)::float8 as number, nullif(avg(size), 0)::float8 as size, min(cosine) as low from scope
),
weights as materialized (
    select array_agg(ln(1 + (total.number - coalesce(found.number, 0) + 0.5) / (coalesce(found.number, 0) + 0.5))
                     order by n) as list
    from terms
    cross join total
    left join (
        select term as n, count(*) as number from scope cross join unnest(scope.hit) as term group by term
    ) found using (n)
),
-- include: scoring.sql
