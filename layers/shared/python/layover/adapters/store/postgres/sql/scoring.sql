-- The second half of ranking.sql: of `scope`, of `weights` (list: what each term weighs) and of `total` (size: the
-- words of an average row; low: the least cosine), makes `fused`.
scores as materialized (
    select scope.*,
           case when scope.hit = '{}' then 0
                else (select sum(weights.list[term]) from unnest(scope.hit) as term)
                     / (1 + 0.5 * (0.7 + 0.3 * scope.size / total.size)) end as weight
    from scope cross join total cross join weights
),
bounds as materialized (
    select nullif(max(weight), 0) as weight, (select low from total) as low, max(cosine) as high from scores
),
normed as (
    select s.*, coalesce(s.weight / b.weight, 0) as lexical,
           case when s.cosine is null then 0
                when b.high > b.low then (s.cosine - b.low) / (b.high - b.low)
                else 1 end as similarity
    from scores s cross join bounds b
),
fused as (
    select *, %(lexical_weight)s::float8 * lexical + %(vector_weight)s::float8 * similarity as own from normed
)
