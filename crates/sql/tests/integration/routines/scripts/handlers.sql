create table said (n serial primary key, what text)
create table o(id int primary key, i int, s smallint, n numeric(4,1), check (i < 1000000000))
insert into o values (1, 10, 10, 10)
do $$ begin update o set i = i + 2147483647 where id = 1; exception when numeric_value_out_of_range then insert into said(what) values (format('caught')); end $$
select what from said order by n
do $$ begin begin update o set i = i + 2147483647 where id = 1; exception when numeric_value_out_of_range then insert into said(what) values (format('caught')); end; insert into o values (2,2); end $$
select what from said order by n
do $$ begin begin update o set i = i + 1000000000 where id = 1; exception when check_violation then insert into said(what) values (format('caught')); end; end $$
select what from said order by n
do $$ begin begin update o set s = s + 32767 where id = 1; exception when numeric_value_out_of_range then insert into said(what) values (format('caught')); end; end $$
select what from said order by n
do $$ begin begin update o set n = n + 999 where id = 1; exception when numeric_value_out_of_range then insert into said(what) values (format('caught')); end; end $$
select what from said order by n
do $$ begin begin update o set n = n * 999 where id = 1; exception when numeric_value_out_of_range then insert into said(what) values (format('caught')); end; end $$
select what from said order by n
create function f(k int) returns text language plpgsql as $$ begin update o set i = i + k where id = 1; return 'ok'; exception when others then return sqlstate; end $$
select f(2147483647), f(1), f(1000000000), f(1)
select * from o order by 1
create function g(k int) returns void language sql as $$ update o set i = i + k where id = 1 $$
create function h(k int) returns text language plpgsql as $$ begin perform g(k); return 'ok'; exception when others then return sqlstate; end $$
select h(2147483647), h(1), h(1000000000), h(1)
do $$ begin begin insert into o values (1, 2147483647) on conflict (id) do update set i = o.i + excluded.i; exception when others then insert into said(what) values (format('%s', sqlstate)); end; end $$
select what from said order by n
do $$ begin begin insert into o values (1, 5) on conflict (id) do update set i = o.i + 2147483640; exception when others then insert into said(what) values (format('%s', sqlstate)); end; end $$
select what from said order by n
create table l(a int)
create function lt() returns trigger language plpgsql as $$ begin update o set i = i + new.a where id = 1; return new; end $$
create trigger l1 after insert on l for each row execute function lt()
do $$ begin begin insert into l values (2147483647); exception when others then insert into said(what) values (format('%s', sqlstate)); end; end $$
select what from said order by n
create procedure pr(k int) language plpgsql as $$ begin update o set i = i + k where id = 1; end $$
do $$ begin begin call pr(2147483647); exception when others then insert into said(what) values (format('%s', sqlstate)); end; begin insert into o values (1); exception when others then insert into said(what) values (format('later %s', sqlstate)); end; end $$
select what from said order by n
do $$ begin begin update o set i = i + 2147483647 where id = 1; end; exception when others then insert into said(what) values (format('outer %s', sqlstate)); end $$
select what from said order by n
do $$ begin update o set i = i + 2147483647 where id = 1; begin perform 1; exception when others then insert into said(what) values (format('wrong handler %s', sqlstate)); end; end $$
select what from said order by n
create procedure pc(k int) language plpgsql as $$ begin begin update o set i = i + k where id = 1; exception when others then insert into said(what) values (format('pc %s', sqlstate)); end; commit; update o set i = i + k where id = 1; end $$
call pc(1)
call pc(2147483647)
select * from o order by 1
create table gr(id int primary key, a int, b int)
insert into gr values (1,5,5)
do $$ begin begin update gr set a = greatest(a, 7), b = b + 2147483647 where id = 1; exception when others then insert into said(what) values (format('%s', sqlstate)); end; end $$
select what from said order by n
select * from gr
