# Constraint triggers that wait for the end of their transaction.
create table log (n serial primary key, what text)
create table t (id int primary key, v int)
create function note() returns trigger language plpgsql as $$ begin insert into log (what) values (tg_name || ' ' || tg_op || ' ' || coalesce(old.v::text, '-') || ' ' || coalesce(new.v::text, '-')); return null; end $$
create constraint trigger late after insert or update or delete on t deferrable initially deferred for each row execute function note()
create constraint trigger soon after update of v on t deferrable initially immediate for each row when (new.v > 10) execute function note()
create constraint trigger wrong after insert on t not deferrable initially deferred for each row execute function note()
create constraint trigger wrong before insert on t deferrable for each row execute function note()
create trigger wrong after insert on t deferrable for each row execute function note()
insert into t values (1, 1), (2, 2)
select what from log order by n
begin
insert into t values (3, 3)
update t set v = 11 where id = 1
select what from log order by n
commit
select what from log order by n
delete from log
begin
insert into t values (4, 4)
savepoint a
insert into t values (5, 5)
rollback to a
insert into t values (6, 6)
set constraints late immediate
select what from log order by n
insert into t values (7, 7)
select what from log order by n
commit
select what from log order by n
delete from log
begin
set constraints all deferred
update t set v = 12 where id = 2
select what from log order by n
set constraints soon immediate
select what from log order by n
rollback
select what from log order by n
begin
insert into t values (8, 8)
savepoint a
set constraints all immediate
select what from log order by n
rollback to a
select what from log order by n
commit
select what from log order by n
delete from log
do $$ begin insert into t values (9, 9); begin insert into t values (10, 10); raise exception 'x'; exception when others then null; end; insert into t values (11, 11); end $$
select what from log order by n
delete from log
create function total() returns trigger language plpgsql as $$ begin if (select sum(v) from t) > 1000 then raise exception 'too much' using errcode = 'check_violation'; end if; return null; end $$
create constraint trigger bounded after insert or update on t deferrable initially deferred for each row execute function total()
begin
update t set v = 5000 where id = 1
update t set v = 1 where id = 1
commit
update t set v = 5000 where id = 1
begin
update t set v = 5000 where id = 1
commit
select v from t where id = 1
create function again() returns trigger language plpgsql as $$ begin if new.v < 3 then insert into chain values (new.v + 1); end if; return null; end $$
create table chain (v int)
create constraint trigger more after insert on chain initially deferred for each row execute function again()
insert into chain values (0)
select v from chain order by v
select tgname, tgdeferrable, tginitdeferred from pg_trigger where not tgisinternal order by 1
select pg_get_triggerdef(oid) from pg_trigger where not tgisinternal order by 1
set constraints nope immediate
