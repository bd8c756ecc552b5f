-- A message that a hook has refused: its owner reads it, and no model is shown what it says.
alter table messages add column refused boolean not null default false;
