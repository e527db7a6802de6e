-- Triggers: transition tables, TRUNCATE, constraint triggers, ENABLE and DISABLE, pg_trigger_depth().
create table log (n serial, what text)
create table tr (id int primary key, v text)
create function note() returns trigger language plpgsql as $$ declare c int; begin if tg_op = 'INSERT' then select count(*) into c from new_rows; insert into log (what) select 'i ' || id || ' ' || v || ' ' || c from new_rows order by id; elsif tg_op = 'DELETE' then insert into log (what) select 'd ' || id from old_rows order by id; else insert into log (what) select 'u ' || o.id || ' ' || o.v || '>' || n.v from old_rows o join new_rows n using (id) order by o.id; end if; return null; end $$
create trigger ti after insert on tr referencing new table as new_rows for each statement execute function note()
create trigger tu after update on tr referencing old table as old_rows new table as new_rows for each statement execute function note()
create trigger td after delete on tr referencing old table old_rows for each statement execute function note()
insert into tr values (1, 'a'), (2, 'b'), (3, 'c')
update tr set v = v || '!' where id < 3
update tr set v = 'none' where id > 100
delete from tr where id = 3
insert into tr values (1, 'x'), (4, 'd') on conflict (id) do update set v = excluded.v
select what from log order by n
create function each_row() returns trigger language plpgsql as $$ begin insert into log (what) select 'row ' || new.id || ' of ' || count(*) || ' depth ' || pg_trigger_depth() from nt; return new; end $$
create trigger tr_row after insert on tr referencing new table as nt for each row execute function each_row()
insert into tr values (10, 'j'), (11, 'k')
select what from log where what like 'row%' order by n
select pg_trigger_depth()
create trigger bad before insert on tr referencing new table as n for each statement execute function note()
create trigger bad after insert or update on tr referencing new table as n for each statement execute function note()
create trigger bad after update of v on tr referencing new table as n for each statement execute function note()
create trigger bad after insert on tr referencing old table as n for each statement execute function note()
create trigger bad after delete on tr referencing new table as n for each statement execute function note()
create trigger bad after update on tr referencing new table as n old table as n for each statement execute function note()
create trigger bad after insert on tr referencing new row as n for each row execute function note()
select tgname, tgoldtable, tgnewtable, tgtype from pg_trigger where tgrelid = 'tr'::regclass and not tgisinternal order by 1
select pg_get_triggerdef(oid) from pg_trigger where tgname in ('ti', 'tu') order by tgname
create function cut() returns trigger language plpgsql as $$ begin insert into log (what) select tg_when || ' ' || tg_op || ' ' || tg_level || ' ' || count(*) from tr; return null; end $$
create trigger tb before truncate on tr for each statement execute function cut()
create trigger ta after truncate on tr execute function cut()
truncate tr
select what from log where what like '%TRUNCATE%' order by n
create trigger bad before truncate on tr for each row execute function cut()
select pg_get_triggerdef(oid), tgtype from pg_trigger where tgname = 'tb'
create function no() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$
create trigger stop before truncate on tr execute function no()
insert into tr values (1, 'kept')
truncate tr
select count(*) from tr
alter table tr disable trigger stop
truncate tr
select count(*) from tr
select tgname, tgenabled from pg_trigger where tgrelid = 'tr'::regclass and tgname in ('stop', 'tb') order by 1
alter table tr enable trigger stop
alter table tr disable trigger nope
alter table tr disable trigger all
insert into tr values (50, 'quiet')
select count(*) from log where what like '%quiet%'
alter table tr enable trigger user
insert into tr values (51, 'loud')
select count(*) from log where what like '%loud%'
create function small() returns trigger language plpgsql as $$ begin if new.id > 1000 then raise exception 'too large' using errcode = '23514'; end if; return null; end $$
create constraint trigger ct after insert or update on tr for each row execute function small()
create constraint trigger cd after insert on tr deferrable initially immediate for each row when (new.id > 0) execute function small()
create constraint trigger bad before insert on tr for each row execute function small()
create constraint trigger bad after insert on tr for each statement execute function small()
insert into tr values (2000, 'x')
select pg_get_triggerdef(oid), tgdeferrable from pg_trigger where tgname = 'cd'
create table deep (n int)
create function again() returns trigger language plpgsql as $$ begin if new.n < 3 then insert into deep values (new.n + 1); end if; insert into log (what) values ('depth ' || pg_trigger_depth()); return new; end $$
create trigger dt before insert on deep for each row when (pg_trigger_depth() < 5) execute function again()
insert into deep values (1)
select what from log where what like 'depth%' order by n
