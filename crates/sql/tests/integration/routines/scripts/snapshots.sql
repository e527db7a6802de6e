create table said (n serial primary key, what text)
create table emp(id int primary key, sal int)
insert into emp values (1,10),(2,20),(3,30)
create function bs(i int) returns int stable language plpgsql as $$ begin return (select sal from emp where id = i); end $$
create function bss(i int) returns int stable language sql as $$ select sal from emp where id = i $$
create function bv(i int) returns int volatile language plpgsql as $$ begin return (select sal from emp where id = i); end $$
create function sumv() returns bigint volatile language sql as 'select sum(sal) from emp'
create function sums() returns bigint stable language sql as 'select sum(sal) from emp'
create function sumi() returns bigint immutable language plpgsql as 'begin return (select sum(sal) from emp); end'
update emp set sal = bs(1) + 1
select * from emp order by 1
update emp set sal = bss(1) + 1
select * from emp order by 1
update emp set sal = bv(1) + 1
select * from emp order by 1
update emp set sal = sumv()
select * from emp order by 1
update emp set sal = sums()
select * from emp order by 1
update emp set sal = sumi()
select * from emp order by 1
update emp set sal = sal - sumv() + sums()
select * from emp order by 1
create table q(id int primary key, x text, s bigint default 0)
create function nx() returns int language sql as 'select coalesce(max(id),0)+1 from q'
create function nxp() returns int language plpgsql as 'begin return (select coalesce(max(id),0)+1 from q); end'
create function nxs() returns int stable language sql as 'select coalesce(max(id),0)+1 from q'
insert into q values (nx(),'a'),(nx(),'b')
select * from q order by 1
insert into q values (nxp(),'a'),(nxp(),'b')
select * from q order by 1
insert into q select nx(), 'c' from generate_series(1,3)
select * from q order by 1
insert into q select nxs() + g, 'c' from generate_series(1,3) g
select * from q order by 1
insert into q select nx(), 'd' from emp
select * from q order by 1
alter table q alter id set default nx()
insert into q(x) values ('e'),('f')
select * from q order by 1
insert into q(x) select 'g' from emp returning *
create function cntq() returns bigint volatile language sql as 'select count(*) from q'
alter table q add check (cntq() < 20)
insert into q(x) select 'h' from generate_series(1,10)
select count(*) from q
insert into q(x) select 'h' from generate_series(1,4)
select count(*) from q
create table h(a int primary key, n bigint)
create function trg() returns trigger language plpgsql as $$ begin new.n := (select count(*) from h); return new; end $$
create trigger h1 before insert or update on h for each row execute function trg()
insert into h values (1),(2),(3)
select * from h order by 1
insert into h select g from generate_series(4,6) g returning *
create function trg2() returns trigger language plpgsql as $$ begin insert into said(what) values (format('%s %s %s', tg_op, new.a, (select sum(n) from h))); return new; end $$
create trigger h2 after insert or update on h for each row execute function trg2()
update h set a = a
select * from h order by 1
insert into h values (7),(8) on conflict (a) do update set n = 100
insert into h values (8),(9) on conflict (a) do update set n = 100
delete from h where (select count(*) from h) > 0 and a in (1,2)
create function w(i int) returns int language plpgsql as $$ begin insert into h values (i); return (select count(*) from h); end $$
select w(100), (select count(*) from h), w(101), (select count(*) from h)
select a, w(a+1000) from h where a < 200 order by a
select count(*) from h
create function st() returns bigint stable language sql as 'select count(*) from h'
create function vo() returns bigint volatile language sql as 'select count(*) from h'
create function vo2() returns bigint volatile language plpgsql as 'declare x bigint; begin insert into h values (5000+(select count(*) from h)); x := st(); insert into h values (6000+(select count(*) from h)); return x * 1000 + st(); end'
select w(200), st(), vo(), vo2(), st(), vo()
create function stn() returns bigint stable language plpgsql as 'begin return vo(); end'
select w(201), stn(), st()
create function stw() returns bigint stable language plpgsql as 'begin return w(202); end'
select stw(), st(), stn()
do $$ declare a bigint; b bigint; begin a := w(300); b := st(); insert into said(what) values (format('%s %s', a, b)); perform w(301) + st(); select w(302), st() into a, b; insert into said(what) values (format('%s %s', a, b)); end $$
select what from said order by n
merge into emp e using (values (1),(2),(9)) v(id) on e.id = v.id when matched then update set sal = sumv() when not matched then insert values (v.id, sumv())
select * from emp order by 1
merge into emp e using (values (1),(2),(10)) v(id) on e.id = v.id when matched then update set sal = sums() when not matched then insert values (v.id, sums())
select * from emp order by 1
truncate emp
insert into emp values (1,10),(2,20),(3,30)
update emp set sal = 1 where sumv() > 0 returning id, sums(), sumv(), (select sum(sal) from emp)
delete from emp where bv(id) is not null returning id, sums(), sumv()
insert into emp values (1,10),(2,20),(3,30)
delete from emp where sumv() > 30 returning id
select * from emp
do $$ declare c cursor for select id, sal from emp; r record; begin open c; update emp set sal = sal + 1; loop fetch c into r; exit when not found; insert into said(what) values (format('%s', r)); end loop; end $$
select what from said order by n
begin
declare c cursor for select * from emp
update emp set sal = 77
fetch all from c
commit
begin
update emp set sal = 5
declare c cursor for select * from emp
delete from emp
fetch all from c
rollback
update emp e set sal = (select sum(sal) from emp x where x.id >= e.id)
select * from emp order by 1
update emp e set sal = sal + 1 returning (select sum(sal) from emp x where x.id <= e.id)
with a as (insert into emp values (20, sumv()), (21, sumv()) returning *) select a.*, sums(), (select count(*) from emp) from a
with a as (insert into emp values (22, 1) returning *) select sumv(), sums() from a
