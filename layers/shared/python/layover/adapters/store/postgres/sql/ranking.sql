-- Ranking (RETRIEVAL.md): of a materialized list `scope` with n, words and cosine (null: no vector of this
-- model), and of `terms` with n and term, makes `fused` with n, lexical, similarity and own: the sum of both,
-- each brought to 0..1 over the scope. A word weighs the more the fewer rows have it, so no list of stop
-- words is needed; how often a row has it made no difference.
total as materialized (
    select count(*)::float8 as number, nullif(avg(length(words)), 0)::float8 as size from scope
),
hits as materialized (
    select scope.n, terms.n as term from scope join terms on scope.words @@ terms.term
),
weights as (
    select hits.term, ln(1 + (total.number - count(*) + 0.5) / (count(*) + 0.5)) as weight
    from hits cross join total
    group by hits.term, total.number
),
matched as (
    select hits.n, sum(weights.weight) as weight from hits join weights using (term) group by hits.n
),
scores as materialized (
    select scope.n, scope.cosine,
           coalesce(matched.weight, 0) / (1 + 0.5 * (0.7 + 0.3 * length(scope.words) / total.size)) as lexical
    from scope cross join total left join matched using (n)
),
bounds as materialized (
    select nullif(max(lexical), 0) as lexical, min(cosine) as low, max(cosine) as high from scores
),
normed as (
    select s.n, s.cosine, coalesce(s.lexical / b.lexical, 0) as lexical,
           case when s.cosine is null then 0
                when b.high > b.low then (s.cosine - b.low) / (b.high - b.low)
                else 1 end as similarity
    from scores s cross join bounds b
),
fused as materialized (
    select n, cosine, lexical, similarity,
           %(lexical_weight)s::float8 * lexical + %(vector_weight)s::float8 * similarity as own
    from normed
)
