-- Bit strings: types, literals, casts, functions, keys.
select b'101' = '101', pg_typeof(b'101'), x'1f', b'1'::bit(3), '10101'::bit(3), b'101'::varbit(2), 5::bit(4), (-5)::bit(8), b'101'::int, b'1'||b'01', pg_typeof(b'1'||b'01')
select '101'::bit
select '12'::bit(2)
create table tb (a bit(3), b bit varying(5), c bit, d varbit)
insert into tb values ('1','1','1','1')
insert into tb values ('101','101010','1','1')
insert into tb values (b'101','1010',b'1',b'11111111111')
insert into tb values (5,'1010',b'1',b'11111111111')
select * from tb
select attname, format_type(atttypid, atttypmod) from pg_attribute where attrelid = 'tb'::regclass and attnum > 0
select b'101' & b'11'
select b'101' | b'010', b'101' # b'111', ~b'101', b'10001' << 3, b'10001' >> 2, b'101' << -1, substring(b'110010' from 2 for 3), substring(b'1100' from 3), position(b'10' in b'1010'), overlay(b'1111' placing b'00' from 2), overlay(b'1111' placing b'00' from 2 for 1), get_bit(b'101',1), set_bit(b'101',1,1), length(b'101'), bit_length(b'101'), octet_length(b'101010101'), bit_count(b'1011')
select get_bit(b'101', 5)
select set_bit(b'101', 1, 2)
select bit_and(x), bit_or(x), bit_xor(x) from (values (b'101'),(b'110')) v(x)
select x'12'::bigint, b'1'::bit(65)::bigint
select 1::bit varying
select '101'::text::bit(3), b'101'::text, cast('x1F' as bit(8)), 'b101'::varbit, b''::varbit
select b'12'
select x'1g'
select bit(3) '101', bit varying '101', bit varying(2) '101'
create table t2 (a bit(0))
create table t2 (a bit(-1))
create table t2 (a bit varying(0))
select format_type(1560, 3), format_type(1562,5), format_type(1562,-1), format_type(1560,-1), format_type(1560,1)
create table kb (k bit(4) primary key, v varbit unique)
insert into kb values ('0001', '1'), ('0010', '10'), ('1111', null), (9::bit(4), '101')
insert into kb values ('0001', '11')
insert into kb values ('0011', '10')
select * from kb where k > '0010' order by k
select k, v from kb order by v
select array_agg(k order by k), '{101,1}'::varbit[], array[b'1', b'0'] from kb
select k::int4 from kb order by 1
update kb set k = k | b'0100' where v = '10' returning k
select b'101' > b'11', b'1' < b'10', b'0' < b'1'
select typname, typcategory, typispreferred, typlen from pg_type where typname in ('bit','varbit') order by 1
select data_type, character_maximum_length from information_schema.columns where table_name = 'tb' order by ordinal_position
