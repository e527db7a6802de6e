create table said (n serial primary key, what text)
create table p(id int primary key)
create table c(id int primary key, p int references p deferrable initially deferred)
do $$ begin insert into c values (1,10); insert into p values (10); end $$
select * from c
do $$ begin insert into c values (2,11); end $$
select * from c
create function f(a int, b int) returns void language plpgsql as $$ begin insert into c values (a,b); insert into p values (b); end $$
select f(3,12)
create function fs(a int, b int) returns void language sql as $$ insert into c values (a,b); insert into p values (b); $$
select fs(4,13)
create procedure pr(a int, b int) language plpgsql as $$ begin insert into c values (a,b); insert into p values (b); end $$
call pr(5,14)
create procedure prc(a int, b int) language plpgsql as $$ begin insert into c values (a,b); insert into p values (b); commit; insert into c values (a+1,b+1); commit; end $$
call prc(6,15)
with x as (insert into c values (8,16)) insert into p values (16)
with x as (insert into p values (17)) insert into c values (9,17)
select * from c order by 1
select * from p order by 1
create table u(a int, constraint u1 unique(a) deferrable initially deferred)
insert into u values (1),(2)
do $$ begin insert into u values (1); delete from u where a = 1; insert into u values (1); end $$
select * from u order by 1
do $$ begin insert into u values (1); end $$
insert into u values (2)
update u set a = a + 1
with x as (insert into u values (3) returning a) select 1
select * from u order by 1
do $$ begin set constraints all immediate; insert into c values (20,30); insert into p values (30); end $$
do $$ begin insert into c values (20,30); set constraints all immediate; insert into p values (30); end $$
do $$ begin insert into c values (20,30); begin set constraints all immediate; exception when foreign_key_violation then insert into said(what) values (format('caught')); end; insert into p values (30); end $$
select what from said order by n
select * from c order by 1
create table ci(id int primary key, p int references p deferrable initially immediate)
do $$ begin set constraints ci_p_fkey deferred; insert into ci values (1,40); insert into p values (40); end $$
select * from ci
do $$ begin set constraints nosuch deferred; end $$
do $$ begin insert into ci values (2,41); insert into p values (41); end $$
create function sc() returns void language plpgsql as $$ begin set constraints all deferred; end $$
begin
select sc()
insert into ci values (3,42)
insert into p values (42)
commit
select sc()
insert into ci values (4,43)
create function g(a int, b int) returns int language plpgsql as $$ begin insert into c values (a,b); return a; end $$
select g(50,60)
select count(*) from c where id = 50
select g(51,61), fs(52,61)
do $$ begin delete from p where id = 10; insert into p values (10); end $$
do $$ begin delete from p where id = 10; delete from c where p = 10; end $$
do $$ begin delete from p where id = 12; end $$
create table n1(id int primary key, x int references n1 deferrable initially deferred)
insert into n1 values (1,2),(2,1)
insert into n1 values (3,4)
select * from n1 order by 1
select * from c where id >= 90
