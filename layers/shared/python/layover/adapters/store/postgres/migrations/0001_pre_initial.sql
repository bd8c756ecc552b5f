-- Everything that outlives a run (docs/database.md).
--
-- Rules that tests/migration hold every table to:
--   * `resource_id` is in every primary, unique and foreign key. A plain foreign key would let a row be
--     planted in another user's thread, and would tell whether an id exists there (referential checks
--     run without row security).
--   * Row security is enabled and forced, one policy, on the transaction's setting `app.resource_id`.
--   * The role of the functions owns nothing, cannot bypass row security, and may only read and write rows.
--
-- The owner needs CREATEROLE and the right to create the extension, no superuser (RDS has none to give).

create extension if not exists vector;

do $$
begin
    if not exists (select from pg_roles where rolname = 'layover_runtime') then
        create role layover_runtime login nosuperuser nobypassrls nocreatedb nocreaterole noreplication;
    end if;
    if exists (select from pg_roles where rolname = 'layover_runtime' and (rolsuper or rolbypassrls)) then
        raise exception 'role layover_runtime must not be able to bypass row security';
    end if;
    -- Aurora pauses only without connections: an idle function gives its connection up.
    alter role layover_runtime set idle_session_timeout = '60s';
    -- A function that died in the middle of a pipeline holds its thread's row for this long at most.
    alter role layover_runtime set idle_in_transaction_session_timeout = '30s';
    -- Every statement reads one owner's rows: for the largest scopes a planner would start workers that read
    -- the whole table, and be slower by half.
    alter role layover_runtime set max_parallel_workers_per_gather = 0;
    if exists (select from pg_roles where rolname = 'rds_iam') then
        grant rds_iam to layover_runtime;
    end if;
end
$$;

-- A row with `deleted_at` is the tombstone of an erased thread: no late writer makes the thread again.
create table threads (
    resource_id text not null default nullif(current_setting('app.resource_id', true), ''),
    id text not null,
    agent text not null,
    title text,
    metadata jsonb not null default '{}',
    created_at timestamptz not null,
    updated_at timestamptz not null,
    deleted_at timestamptz,
    constraint threads_pkey primary key (resource_id, id)
);

-- `path`: the branches from the root down to this one; `path_depths`: the highest depth of each that is
-- on the path (of this one: no bound). Depth counts from the root, across branches: so the messages of a
-- path with depths a..b are index ranges, one for each branch that the window touches.
create table branches (
    resource_id text not null default nullif(current_setting('app.resource_id', true), ''),
    thread_id text not null,
    id integer not null,
    path integer[] not null,
    path_depths integer[] not null,
    -- Where the recent window of the newest turn on this branch begins: it moves in steps (docs/behaviour.md#prompt-window).
    window_depth integer not null default 0,
    constraint branches_pkey primary key (resource_id, thread_id, id),
    constraint branches_thread_fkey foreign key (resource_id, thread_id)
        references threads (resource_id, id) on delete cascade,
    constraint branches_path_check
        check (cardinality(path) = cardinality(path_depths) and path[cardinality(path)] = id)
);

-- `content` is json, not jsonb: what a model wrote comes back with its keys in the order in which it wrote
-- them, so the next turn's prompt has the bytes that the provider's cache knows.
create table messages (
    resource_id text not null default nullif(current_setting('app.resource_id', true), ''),
    thread_id text not null,
    branch_id integer not null,
    depth integer not null,
    id text not null,
    parent_id text,
    run_id text,
    role text not null,
    created_at timestamptz not null,
    token_count integer,
    content json not null,
    model_output text,
    -- The owner comes last. Both indexes would do for a planner that believes an owner to have one message, as it
    -- does of a new one, whom its statistics do not know beside a few that have all: it would read all they have.
    constraint messages_pkey primary key (thread_id, branch_id, depth, resource_id),
    constraint messages_id_key unique (id, thread_id, resource_id),
    constraint messages_branch_fkey foreign key (resource_id, thread_id, branch_id)
        references branches (resource_id, thread_id, id) on delete cascade,
    constraint messages_role_check check (role in ('user', 'assistant', 'tool', 'custom'))
);

-- What semantic recall searches: one row a user or assistant text. Without an embedder, or after a change of
-- it, `words` alone are searched.
create table message_embeddings (
    resource_id text not null default nullif(current_setting('app.resource_id', true), ''),
    thread_id text not null,
    message_id text not null,
    agent text not null,
    branch_id integer not null,
    depth integer not null,
    created_at timestamptz not null,
    -- The words of the speaker's name, where it is known: a query that names somebody means what they said.
    speaker text[] not null default '{}',
    model text,
    embedding halfvec,
    words tsvector not null,
    constraint message_embeddings_pkey primary key (resource_id, thread_id, message_id),
    constraint message_embeddings_message_fkey foreign key (resource_id, thread_id, message_id)
        references messages (resource_id, thread_id, id) on delete cascade,
    -- A row that is stored PLAIN has to fit into one page.
    constraint message_embeddings_dimensions_check check (vector_dims(embedding) <= 3900)
);
alter table message_embeddings alter column embedding set storage plain;
-- Else every row with a vector of more than 2 kB has its words compressed or elsewhere, and each look at them costs
-- more than the vector's.
alter table message_embeddings set (toast_tuple_target = 8160);
create index message_embeddings_scope_idx on message_embeddings (resource_id, agent, created_at);
create index message_embeddings_thread_idx on message_embeddings (resource_id, thread_id, created_at);

-- Episodic memory: agent + user. `superseded_by`: contradicted by a later entry, kept and not retrieved.
create table memory_entries (
    resource_id text not null default nullif(current_setting('app.resource_id', true), ''),
    id text not null,
    agent text not null,
    thread_id text not null,
    message_id text,
    run_id text,
    content text not null,
    source text not null,
    evidence text not null,
    verified boolean not null default true,
    hash text not null,
    created_at timestamptz not null,
    superseded_by text,
    -- The chat model that proposed it, and the prompt that it was asked with.
    extractor text,
    prompt_version text,
    -- Of the embedder.
    model text,
    embedding halfvec,
    words tsvector not null,
    constraint memory_entries_pkey primary key (resource_id, id),
    constraint memory_entries_hash_key unique (resource_id, agent, hash),
    constraint memory_entries_thread_fkey foreign key (resource_id, thread_id)
        references threads (resource_id, id) on delete cascade,
    constraint memory_entries_dimensions_check check (vector_dims(embedding) <= 3900)
);
alter table memory_entries alter column embedding set storage plain;
alter table memory_entries set (toast_tuple_target = 8160);
create index memory_entries_scope_idx on memory_entries (resource_id, agent, created_at)
    where superseded_by is null;
create index memory_entries_thread_idx on memory_entries (resource_id, thread_id);
create index memory_entries_superseded_idx on memory_entries (resource_id, superseded_by)
    where superseded_by is not null;

-- Immutable generations of observations or summaries; each ends with a message. A prompt uses the deepest
-- active one whose end is on its path. Not active: a slice that was observed ahead.
create table compactions (
    resource_id text not null default nullif(current_setting('app.resource_id', true), ''),
    thread_id text not null,
    generation integer not null,
    kind text not null,
    -- The modes of compaction do not see each other's generations.
    mode text not null generated always as (case kind when 'summary' then 'summary' else 'observations' end) stored,
    branch_id integer not null,
    after_depth integer not null,
    through_depth integer not null,
    through_message_id text not null,
    -- Of the last message: a run finds what was observed of its own steps.
    run_id text,
    -- The generations whose observations a prompt shows, in order, this one last; of a slice: none yet.
    chain integer[] not null default '{}',
    active boolean not null default true,
    summary text,
    token_count integer not null,
    prompt_version text,
    model text,
    -- Made from the call that stores it (`activated_by`: that activates it): a pipeline that runs twice finds its
    -- own work and does it once.
    id text not null default gen_random_uuid(),
    activated_by text,
    created_at timestamptz not null,
    -- The owner last, here and below, where a probe should not look like a scan of all that an owner has.
    constraint compactions_id_key unique (id, resource_id),
    constraint compactions_through_fkey foreign key (resource_id, thread_id, through_message_id)
        references messages (resource_id, thread_id, id) on delete cascade,
    constraint compactions_kind_check check (kind in ('observations', 'reflection', 'summary')),
    constraint compactions_active_check check (active or kind = 'observations')
);
create index compactions_deepest_idx
    on compactions (resource_id, thread_id, mode, branch_id, through_depth, generation) where active;
create index compactions_run_idx on compactions (run_id, resource_id) where not active;
-- A stretch of a path is observed once. Not its start alone: a path that leaves in the middle of a slice needs a
-- shorter one from the same start, on the same branch.
create unique index compactions_slice_key
    on compactions (resource_id, thread_id, branch_id, after_depth, through_depth) where kind = 'observations';
-- After the others: of indexes that look alike, as they do without statistics, the planner takes the newest.
alter table compactions add constraint compactions_pkey primary key (resource_id, thread_id, generation);

-- `superseded`: a reflection of its path left it out. A path that falls back to its generation still shows it.
create table observations (
    resource_id text not null default nullif(current_setting('app.resource_id', true), ''),
    thread_id text not null,
    generation integer not null,
    id text not null,
    position integer not null,
    observed_at timestamptz not null,
    marker text not null,
    content text not null,
    parent_id text,
    superseded boolean not null default false,
    constraint observations_pkey primary key (resource_id, thread_id, generation, id),
    constraint observations_generation_fkey foreign key (resource_id, thread_id, generation)
        references compactions (resource_id, thread_id, generation) on delete cascade,
    constraint observations_marker_check check (marker in ('CRITICAL', 'IMPORTANT', 'INFO', 'COMPLETION'))
);

-- `kind`: working or profile. `key`: the agent's name (or '*': shared) for scope resource, the thread's id
-- for scope thread; `thread_id` is set for the latter, so that it goes with its thread.
create table working_memory (
    resource_id text not null default nullif(current_setting('app.resource_id', true), ''),
    kind text not null,
    scope text not null,
    key text not null,
    thread_id text,
    value json not null,
    -- Of a profile: field -> when the turn was said that set it, or took it away.
    said json,
    version integer not null default 1,
    -- Who wrote it last: a run does not compete with its own writes.
    run_id text,
    -- Tells a note from one that was deleted before it: their versions are the same.
    created_at timestamptz not null,
    updated_at timestamptz not null,
    constraint working_memory_pkey primary key (resource_id, kind, scope, key),
    constraint working_memory_thread_fkey foreign key (resource_id, thread_id)
        references threads (resource_id, id) on delete cascade,
    constraint working_memory_scope_check check (scope in ('resource', 'thread'))
);
create index working_memory_thread_idx on working_memory (resource_id, thread_id);

-- Notes are merged by field: each field of `change` replaces the old one in its place, null takes it away, new
-- ones go to the end. json, not jsonb: fields stay in the order in which they came.
create function merged_fields(old json, change json) returns json language sql immutable as $$
    select coalesce(
        json_object_agg(key, coalesce(c.value, o.value) order by o.n nulls last, c.n)
            filter (where json_typeof(coalesce(c.value, o.value)) <> 'null'),
        '{}')
    from json_each(case json_typeof(old)
                       when 'object' then old
                       when 'string' then json_build_object('about', old)
                       else '{}'
                   end) with ordinality o (key, value, n)
    full join json_each(change) with ordinality c (key, value, n) using (key)
$$;

-- Of `change` the fields that nothing said later has set.
create function latest_fields(change json, said json, said_at timestamptz) returns json language sql stable as $$
    select json_object_agg(c.key, c.value order by c.n)
    from json_each(change) with ordinality c (key, value, n)
    where coalesce((said ->> c.key)::timestamptz <= said_at, true)
$$;

-- One row for each agent that has learned of its user: writers of what it knows take turns by it. It outlives
-- what was deleted. `entries_version`: with every run that teaches it entries, another one. `profile_set_at`: when
-- the owner put or deleted the profile last.
create table memory_scopes (
    resource_id text not null default nullif(current_setting('app.resource_id', true), ''),
    agent text not null,
    entries_version integer not null default 0,
    profile_set_at timestamptz,
    constraint memory_scopes_pkey primary key (resource_id, agent)
);

create table thread_state (
    resource_id text not null default nullif(current_setting('app.resource_id', true), ''),
    thread_id text not null,
    session json,
    -- Field of the session -> when the newest turn was said that changed it.
    session_said json,
    plan json,
    version integer not null default 1,
    updated_at timestamptz not null,
    constraint thread_state_pkey primary key (resource_id, thread_id),
    constraint thread_state_thread_fkey foreign key (resource_id, thread_id)
        references threads (resource_id, id) on delete cascade
);

-- One row for each run whose extraction is done; it goes in with the results.
create table extractions (
    resource_id text not null default nullif(current_setting('app.resource_id', true), ''),
    run_id text not null,
    thread_id text not null,
    created_at timestamptz not null default now(),
    constraint extractions_pkey primary key (resource_id, run_id),
    constraint extractions_thread_fkey foreign key (resource_id, thread_id)
        references threads (resource_id, id) on delete cascade
);
create index extractions_thread_idx on extractions (resource_id, thread_id);

create table iteration_log (
    resource_id text not null default nullif(current_setting('app.resource_id', true), ''),
    thread_id text not null,
    task text not null,
    attempt integer not null,
    -- Made from the call that logs it: a pipeline that runs twice logs once.
    id text not null default gen_random_uuid(),
    run_id text,
    action text not null,
    result text,
    error text,
    diagnosis text,
    fix_applied text,
    created_at timestamptz not null,
    constraint iteration_log_pkey primary key (resource_id, thread_id, task, attempt),
    constraint iteration_log_id_key unique (resource_id, thread_id, id),
    constraint iteration_log_thread_fkey foreign key (resource_id, thread_id)
        references threads (resource_id, id) on delete cascade
);

-- A file belongs to a thread once a message of that thread names it.
create table files (
    resource_id text not null default nullif(current_setting('app.resource_id', true), ''),
    id text not null,
    thread_id text,
    name text not null,
    mime_type text not null,
    size bigint not null,
    key text not null,
    created_at timestamptz not null,
    constraint files_pkey primary key (resource_id, id),
    constraint files_thread_fkey foreign key (resource_id, thread_id)
        references threads (resource_id, id) on delete cascade
);
create index files_thread_idx on files (resource_id, thread_id);

-- The final tree of a run, kept when its journal is gone.
create table run_snapshots (
    resource_id text not null default nullif(current_setting('app.resource_id', true), ''),
    thread_id text not null,
    run_id text not null,
    status text not null,
    created_at timestamptz not null,
    tree json not null,
    constraint run_snapshots_pkey primary key (resource_id, thread_id, run_id),
    constraint run_snapshots_thread_fkey foreign key (resource_id, thread_id)
        references threads (resource_id, id) on delete cascade
);

-- What was spent stays when its thread is deleted: it has no thread. `step`: the step's journal key, or the
-- task of background work.
create table usage (
    resource_id text not null default nullif(current_setting('app.resource_id', true), ''),
    run_id text not null,
    step text not null,
    kind text not null,
    agent text not null,
    model text not null,
    input_tokens bigint not null,
    output_tokens bigint not null,
    cached_input_tokens bigint not null,
    reasoning_tokens bigint not null,
    cost_usd numeric,
    at timestamptz not null,
    constraint usage_pkey primary key (resource_id, run_id, step),
    constraint usage_kind_check check (kind in ('run', 'background'))
);

do $$
declare
    name text;
begin
    foreach name in array array[
        'threads', 'branches', 'messages', 'message_embeddings', 'memory_entries', 'compactions', 'observations',
        'working_memory', 'memory_scopes', 'thread_state', 'extractions', 'iteration_log', 'files', 'run_snapshots', 'usage'
    ] loop
        execute format('alter table %I enable row level security', name);
        execute format('alter table %I force row level security', name);
        -- nullif: once set in a session, an absent setting reads as '' and not as null.
        execute format(
            'create policy %I on %I using (resource_id = nullif(current_setting(''app.resource_id'', true), '''')) '
            'with check (resource_id = nullif(current_setting(''app.resource_id'', true), ''''))',
            name || '_owner', name);
        execute format('grant select, insert, update, delete on %I to layover_runtime', name);
    end loop;
end
$$;

-- Who has anything stored, for the operator's work on all of it (`layover reembed`): the role that owns the tables
-- may read the threads of all owners. What they said stays under their own policies, for this role, too.
create policy threads_operator on threads for select to current_user using (true);

grant usage on schema public to layover_runtime;
