# A body of the standard's form keeps what it names, and follows its names.
create table at1 (a int, b int)
create view av1 as select a from at1
create type ae as enum ('x')
create function acall(x int) returns int language sql as $$ select x $$
create function as_text() returns int language sql as $$ select max(a) from at1 $$
create function af1() returns int language sql begin atomic select a from at1; end
create function af2() returns int language sql return (select max(a) from av1)
create function af4() returns int language sql return acall(1)
create function af5() returns ae language sql return 'x'::ae
create procedure ap1() language sql begin atomic insert into at1 values (1, 2); delete from at1 where a = 2; end
create view avf as select af1() as x
drop table at1
drop view av1
drop function acall
drop function acall(int)
drop type ae
drop function af1
call ap1()
alter table at1 rename to at2
alter view av1 rename to av2
alter function acall(int) rename to acall2
alter type ae rename to ae2
create schema elsewhere
alter table at2 set schema elsewhere
select af1(), af2(), af4(), af5()
call ap1()
select * from elsewhere.at2
drop table elsewhere.at2
drop table elsewhere.at2 cascade
select proname from pg_proc where proname ~ '^a[fp][0-9]$' order by 1
select count(*) from pg_views where viewname in ('av2', 'avf')
drop function acall2 cascade
drop type ae2 cascade
select proname from pg_proc where proname ~ '^a[fp][0-9]$' order by 1
select as_text()
