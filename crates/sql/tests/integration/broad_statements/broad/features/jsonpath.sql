-- jsonpath: how paths are read and printed.
select '$'::jsonpath, ''::jsonpath
select 'lax'::jsonpath
select 'strict $'::jsonpath, 'LAX $.a'::jsonpath
select '$.a.b."c d".*.**[*]'::jsonpath
select '$.a[1, 2 to last, last - 1][*]'::jsonpath
select '$.**{2}.**{2 to 4}.**{last}.**{1 to last}'::jsonpath
select '$."a\u0041\x42\n\"b\""'::jsonpath, '"\v\b\f"'::jsonpath
select '$.a ? (@ > 1 && @.b == "x" || !(@.c < 3))'::jsonpath
select '$ ? ((@.a > 1) is unknown)'::jsonpath, '($.a > 1) is unknown'::jsonpath
select '$ ? (exists (@.a ? (@ > 1)) && (@.b starts with "x" || @.b like_regex "^a" flag "im"))'::jsonpath
select '(1).type()'::jsonpath, '($.a + 1).abs()'::jsonpath, '$.a.size().type()'::jsonpath
select '1.type()'::jsonpath
select '$a + $"b c" == 1'::jsonpath, 'true'::jsonpath, 'null'::jsonpath, '"x"'::jsonpath
select '$.true.null.is.last.exists.strict'::jsonpath, '$.datetime.size'::jsonpath
select '1e3'::jsonpath, '1.'::jsonpath, '.5'::jsonpath, '0.10'::jsonpath
select '01'::jsonpath
select '1a'::jsonpath
select '1e'::jsonpath
select '@'::jsonpath
select 'last'::jsonpath
select '$[last]'::jsonpath
select '$ ? (@)'::jsonpath
select '$ ? (@ > 1'::jsonpath
select '$.a +'::jsonpath
select '$.'::jsonpath
select '$.a b'::jsonpath
select '$ ? (1 == (2 == 3))'::jsonpath
select '$ ? (@ like_regex "a" flag "z")'::jsonpath
select '$ ? (@ like_regex "a" flag "x")'::jsonpath
select '$.foo()'::jsonpath
select '"\u00"'::jsonpath
select '"abc'::jsonpath
select '$ /* a comment */ . /* another */ a'::jsonpath
-- Accessors, lax and strict.
select jsonb_path_query('{"a": 12}', '$.a'), jsonb_path_query('{"a": {"b": [1, 2]}}', '$.a.b[*]')
select jsonb_path_query('[{"a": 1}, {"b": 2}, {"a": [3, 4]}]', '$.a')
select jsonb_path_query('[{"a": 1}, {"b": 2}]', 'strict $.a')
select jsonb_path_query('[{"a": 1}, {"b": 2}]', 'strict $[*].a')
select jsonb_path_query('[{"a": 1}, {"b": 2}]', 'strict $[*].a', silent => true)
select jsonb_path_query('1', '$[0]'), jsonb_path_query('1', '$[*]'), jsonb_path_query('1', '$[last]')
select jsonb_path_query('1', 'strict $[0]')
select jsonb_path_query('1', 'strict $[*]')
select jsonb_path_query('1', 'strict $.*')
select jsonb_path_query('1', '$.*')
select jsonb_path_query('{"a": 1, "b": [2, {"c": 3}]}', '$.*')
select jsonb_path_query('{"a": 1, "b": [2, {"c": 3}]}', '$.**')
select jsonb_path_query('{"a": 1, "b": [2, {"c": 3}]}', '$.**{1}')
select jsonb_path_query('{"a": 1, "b": [2, {"c": 3}]}', '$.**{1 to 2}')
select jsonb_path_query('{"a": 1, "b": [2, {"c": 3}]}', '$.**{last}')
select jsonb_path_query('{"a": 1, "b": [2, {"c": 3}]}', 'strict $.**.c')
select jsonb_path_query('[1, 2, 3, 4]', '$[1 to 2, 0, last, last - 1]')
select jsonb_path_query('[1, 2, 3, 4]', '$[10]')
select jsonb_path_query('[1, 2, 3, 4]', 'strict $[10]')
select jsonb_path_query('[1, 2, 3, 4]', 'strict $[2 to 1]')
select jsonb_path_query('[1, 2, 3, 4]', '$[1.9]'), jsonb_path_query('[1, 2, 3]', '$[-1]')
select jsonb_path_query('[1, 2, 3, 4]', '$["x"]')
select jsonb_path_query('[1, 2, 3, 4]', '$[10000000000]')
select jsonb_path_query('[[1, 2], [3]]', '$[*][last]')
select jsonb_path_query('{"a": [1, 2, 3], "i": 1}', '$.a[$.i]')
-- Filters.
select jsonb_path_query('[1, 2, 3, "4", null, true]', '$[*] ? (@ > 1)')
select jsonb_path_query('[1, 2, 3, "4", null, true]', 'strict $[*] ? (@ != null)')
select jsonb_path_query('[1, 2, 3, "4", null, true]', '$[*] ? (@ == null || @ == true)')
select jsonb_path_query('[1, 2, 3, "4"]', '$[*] ? ((@ > 1) is unknown)')
select jsonb_path_query('[{"a": 1, "b": 2}, {"a": 3}]', '$[*] ? (@.a > 0 && exists (@.b)).a')
select jsonb_path_query('[{"a": [1, 5]}, {"a": 3}]', '$[*] ? (@.a > 4)')
select jsonb_path_query('[{"a": [1, 5]}, {"a": 3}]', 'strict $[*] ? (@.a > 2)')
select jsonb_path_query('{"a": [1, "x", 5]}', 'strict $ ? (@.a[*] > 2)'), jsonb_path_query('{"a": [1, "x", 5]}', 'lax $ ? (@.a[*] > 2)')
select jsonb_path_query('["abc", "abd", "xab"]', '$[*] ? (@ starts with "ab")')
select jsonb_path_query('["abc", "abd", "xab"]', '$[*] ? (@ starts with $p)', '{"p": "x"}')
select jsonb_path_query('["abc", "ABD", "x\nab", "a.c"]', '$[*] ? (@ like_regex "^ab" flag "i")')
select jsonb_path_query('["abc", "ABD", "x\nab", "a.c"]', '$[*] ? (@ like_regex "^ab" flag "m")')
select jsonb_path_query('["abc", "ABD", "x\nab", "a.c"]', '$[*] ? (@ like_regex "a.c" flag "q")')
select jsonb_path_query('["a\nc", "abc"]', '$[*] ? (@ like_regex "a.c")'), jsonb_path_query('["a\nc"]', '$[*] ? (@ like_regex "a.c" flag "s")')
select jsonb_path_query('[1, 2]', '$ ? (@[*] > 1)'), jsonb_path_query('[3, 2]', '$ ? (@ > 1)')
select jsonb_path_query('{"a": 1}', '$.a == 1'), jsonb_path_query('{"a": 1}', '$.b == 1'), jsonb_path_query('{"a": 1}', 'strict $.b == 1')
select jsonb_path_query('{"a": {"b": 1}}', '$ ? (@.a ? (@.b == 1).b == 1)')
-- Arithmetic and methods.
select jsonb_path_query('[1, 2, 3]', '-$[*]'), jsonb_path_query('[5]', '$ + 1'), jsonb_path_query('7', '$ % 4 * 2.5 - 1 / 3')
select jsonb_path_query('[1, 2]', '$[*] + 1')
select jsonb_path_query('"a"', '-$')
select jsonb_path_query('1', '$ / 0')
select jsonb_path_query('1', '$ / 0', silent => true)
select jsonb_path_exists('1', '$ ? ($ / 0 > 1)'), jsonb '[1,"a"]' @? '-$[*]', jsonb '["a"]' @? '-$[*]'
select jsonb_path_query('[null, 1, true, "a", [], {}]', '$[*].type()')
select jsonb_path_query('[null, [1, 2], {}]', '$[*].size()'), jsonb_path_query('[1, [2]]', '$.size()')
select jsonb_path_query('[null, [1, 2]]', 'strict $[*].size()')
select jsonb_path_query('[1.5, -2.5, 0]', '$[*].abs()'), jsonb_path_query('[1.5, -2.5]', '$[*].floor()'), jsonb_path_query('[1.5, -2.5]', '$.ceiling()')
select jsonb_path_query('"x"', '$.abs()')
select jsonb_path_query('["1.23", "-1e3", 5]', '$[*].double()')
select jsonb_path_query('"inf"', '$.double()')
select jsonb_path_query('"1.2x"', '$.double()')
select jsonb_path_query('null', '$.double()')
select jsonb_path_query('{"a": 1, "bb": [2]}', '$.keyvalue()')
select jsonb_path_query('[{"a": 1, "b": [1, 2]}, {"c": {"a": "bbb"}}]', '$[*].keyvalue()')
select jsonb_path_query('[{"a": 1.5, "b": [1, 12345.678]}, {"c": {"a": "bbb"}}, {"x": {"y": 1}}]', '$.**.keyvalue().id')
select jsonb_path_query('{"a": 1}', '$.keyvalue().key'), jsonb_path_query('{}', '$.keyvalue()')
select jsonb_path_query('1', '$.keyvalue()')
-- Moments.
select jsonb_path_query('["2024-01-02", "10:11:12", "10:11:12+03", "2024-01-02 10:11:12", "2024-01-02T10:11:12", "2024-01-02 10:11:12+05:30"]', '$[*].datetime().type()')
select jsonb_path_query('["2024-01-02", "10:11:12", "10:11:12+03", "2024-01-02 10:11:12", "2024-01-02T10:11:12", "2024-01-02 10:11:12+05:30"]', '$[*].datetime()')
select jsonb_path_query('["2024-01-02", "2024-03-04"]', '$[*] ? (@.datetime() > "2024-02-01".datetime())')
select jsonb_path_query('"x"', '$.datetime()')
select jsonb_path_query('1', '$.datetime()')
select jsonb_path_query('["2024-01-02 10:00:00+00"]', '$[*] ? (@.datetime() > "2024-01-01".datetime())')
select jsonb_path_query_tz('["2024-01-02 10:00:00+00"]', '$[*] ? (@.datetime() > "2024-01-01".datetime())')
select jsonb_path_query('["10:00:00", "2024-01-02"]', '$[*] ? (@.datetime() == "10:00:00".datetime())')
-- Functions, operators, variables.
select jsonb_path_query_array('[1, 2, 3]', '$[*] ? (@ > $x)', '{"x": 1}'), jsonb_path_query_first('[1, 2, 3]', '$[*] ? (@ > 1)'), jsonb_path_query_first('[]', '$[*]')
select jsonb_path_query('1', '$x')
select jsonb_path_query('1', '$x', '[]')
select jsonb_path_query('1', '$x', '{}', true)
select jsonb_path_exists('{"a": 1}', '$.a'), jsonb_path_exists('{"a": 1}', '$.b'), jsonb_path_exists('{"a": 1}', 'strict $.b', silent => true)
select jsonb_path_exists('{"a": 1}', 'strict $.b')
select jsonb_path_match('{"a": 1}', '$.a == 1'), jsonb_path_match('{"a": 1}', '$.b == 1'), jsonb_path_match('{"a": 1}', 'strict $.b == 1')
select jsonb_path_match('{"a": 1}', '$.a')
select jsonb_path_match('{"a": 1}', '$.a', silent => true), jsonb '{"a": 1}' @@ '$.a', jsonb '{"a": 1}' @@ '$.a > 0', jsonb '{"a": 1}' @@ 'strict $.c > 0'
select jsonb '{"a": 1}' @? '$.a', jsonb '{"a": 1}' @? '$.b', jsonb '{"a": 1}' @? 'strict $.b', null::jsonb @? '$', '{}'::jsonb @? null
select jsonb_path_query(target => '[1]', path => '$[0]')
select * from jsonb_path_query('{"a": [1, 2]}', '$.a[*]') as t(v)
create table jp (id int primary key, j jsonb, p jsonpath)
insert into jp values (1, '{"tags": ["a", "b"], "price": 10}', '$.tags[*]'), (2, '{"tags": [], "price": 20}', 'strict $.price'), (3, null, null)
select id, jsonb_path_query_array(j, p), p from jp order by id
select id from jp where j @? '$.tags[*] ? (@ == "b")'
select id from jp where j @@ '$.price > 15'
select p from jp order by p
select distinct p from jp
create index on jp (p)
create index jp_j on jp using gin (j jsonb_path_ops)
select pg_typeof(p), p::text, p::text::jsonpath from jp where id = 1
select '{1,$.a}'::jsonpath[]
drop table jp
select '1 + 2 * 3 - -4 % 5 / +6'::jsonpath, '-12.5'::jsonpath, '$ + -(1).abs()'::jsonpath
select jsonb_path_query('{"v": 1}', '$x.keyvalue()', '{"x": {"q": 1}}')
