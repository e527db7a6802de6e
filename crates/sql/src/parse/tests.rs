//! Tests of the parser: accepted and refused texts with their positions, and that no text exhausts the stack.

use crate::error::SqlState;
use crate::parse::syntax::{Expr, ExprKind, QueryBodySyntax, SelectItem, Statement, TableRef};
use crate::parse::{parse, parse_expression, parse_type};

/// The operators of an expression with every grouping written out.
fn shape(expr: &Expr) -> String {
    let list = |exprs: &[Expr]| exprs.iter().map(shape).collect::<Vec<_>>().join(", ");
    match &expr.kind {
        ExprKind::Integer(text) | ExprKind::Decimal(text) => text.clone(),
        ExprKind::Text(text) => format!("'{text}'"),
        ExprKind::Bool(value) => value.to_string(),
        ExprKind::Null => "null".to_string(),
        ExprKind::Parameter(number) => format!("${number}"),
        ExprKind::Column(parts) => parts.iter().map(|part| part.text.clone()).collect::<Vec<_>>().join("."),
        ExprKind::Unary { operator, operand } => format!("({} {})", operator.symbol, shape(operand)),
        ExprKind::Binary { operator, left, right } => {
            format!("({} {} {})", shape(left), operator.symbol, shape(right))
        }
        ExprKind::And(operands) => format!("and({})", list(operands)),
        ExprKind::Or(operands) => format!("or({})", list(operands)),
        ExprKind::Not(operand) => format!("not({})", shape(operand)),
        ExprKind::IsNull { operand, negated } => format!("isnull({}, {negated})", shape(operand)),
        ExprKind::Cast { operand, ty } => format!("{}::{}", shape(operand), ty.name),
        ExprKind::Between { operand, low, high, negated, .. } => {
            format!("between({}, {}, {}, {negated})", shape(operand), shape(low), shape(high))
        }
        ExprKind::InList { operand, list: items, negated } => {
            format!("in({}, [{}], {negated})", shape(operand), list(items))
        }
        ExprKind::Like { operand, pattern, .. } => format!("like({}, {})", shape(operand), shape(pattern)),
        ExprKind::Call(call) => {
            let args: Vec<_> = call.args.iter().map(|arg| shape(&arg.value)).collect();
            format!("{}({})", call.name, args.join(", "))
        }
        ExprKind::Row(fields) => format!("row({})", list(fields)),
        ExprKind::Subscript { operand, index } => format!("{}[{}]", shape(operand), shape(index)),
        ExprKind::Collate { operand, collation } => format!("{} collate {collation}", shape(operand)),
        other => format!("{other:?}"),
    }
}

#[test]
fn operators_bind_as_in_postgresql() {
    for (text, expected) in [
        ("1 + 2 * 3 - 4", "((1 + (2 * 3)) - 4)"),
        ("-2 ^ 2", "(-2 ^ 2)"),
        ("- x ^ 2", "((- x) ^ 2)"),
        ("2 ^ 3 ^ 2", "((2 ^ 3) ^ 2)"),
        ("a or b and not c = d", "or(a, and(b, not((c = d))))"),
        ("a || b = c || d", "((a || b) = (c || d))"),
        ("a + b || c", "((a + b) || c)"),
        ("a < b is null", "isnull((a < b), false)"),
        ("not a is null", "not(isnull(a, false))"),
        ("a between b + 1 and c and d", "and(between(a, (b + 1), c, false), d)"),
        ("a not between 1 and 2 or b", "or(between(a, 1, 2, true), b)"),
        ("a in (1, 2) = b", "(in(a, [1, 2], false) = b)"),
        ("a like b || 'x'", "like(a, (b || 'x'))"),
        ("x::int + 1", "(x::int4 + 1)"),
        ("-x::int", "(- x::int4)"),
        ("a[1][2]", "a[1][2]"),
        ("@ -5 + 3", "(@ (-5 + 3))"),
        ("a ->> 'b' = 'c'", "((a ->> 'b') = 'c')"),
        ("a at time zone 'UTC' = b", "(pg_catalog.timezone('UTC', a) = b)"),
        ("a collate \"C\" < b", "(a collate C < b)"),
        ("(1, 2) = (3, 4)", "(row(1, 2) = row(3, 4))"),
        ("a != b", "(a <> b)"),
        ("a <> -1", "(a <> -1)"),
        ("2-+1", "(2 - (+ 1))"),
        ("a operator(pg_catalog.~) 'b'", "(a ~ 'b')"),
        ("true and true and true", "and(true, true, true)"),
    ] {
        let expr = parse_expression(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(shape(&expr), expected, "{text}");
    }
}

#[test]
fn literals_are_decoded() {
    for (text, expected) in [
        ("'it''s'", "'it's'"),
        ("e'a\\n\\x41\\101\\u00e4'", "'a\nAAä'"),
        ("$$a'b$$", "'a'b'"),
        ("$x$a$$b$x$", "'a$$b'"),
        ("'a'\n 'b'", "'ab'"),
        ("U&'\\00e4\\+01F600'", "'ä😀'"),
        ("1.5e3", "1.5e3"),
        (".5", ".5"),
        ("date '2020-01-01'", "'2020-01-01'::date"),
        ("timestamp with time zone '2020-01-01'", "'2020-01-01'::timestamptz"),
        ("double precision '1'", "'1'::float8"),
        ("interval '1' day", "'1'::interval"),
        ("numeric(4,1) '12.3'", "'12.3'::numeric"),
        ("substring(a from 2 for 3)", "pg_catalog.substring(a, 2, 3)"),
        ("trim(leading 'x' from a)", "pg_catalog.ltrim(a, 'x')"),
        ("trim(a)", "pg_catalog.btrim(a)"),
        ("extract(year from a)", "pg_catalog.extract('year', a)"),
        ("position('b' in a)", "pg_catalog.position(a, 'b')"),
        ("current_timestamp", "pg_catalog.current_timestamp()"),
        ("left(a, 2)", "left(a, 2)"),
    ] {
        let expr = parse_expression(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(shape(&expr), expected, "{text}");
    }
}

#[test]
fn statements_sent_by_common_clients_are_parsed() {
    for text in [
        "drop table if exists pgbench_accounts, pgbench_branches",
        "create table pgbench_accounts(aid int not null,bid int,abalance int,filler char(84)) with (fillfactor=100)",
        "copy pgbench_accounts from stdin with (freeze on)",
        "vacuum analyze pgbench_branches",
        "alter table pgbench_accounts add primary key (aid)",
        "alter table a add constraint f foreign key (bid) references b on delete cascade",
        "insert into a(bid) select bid from generate_series(1, 10) as bid",
        "BEGIN; END; COMMIT WORK; ABORT; START TRANSACTION READ ONLY",
        "BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE",
        "select count(*) from t where (a, b) in ((1, 2), (3, 4)) for update",
        "select a from t order by b desc nulls last limit 1 for no key update skip locked",
        "set session characteristics as transaction isolation level serializable",
        "show transaction isolation level; show all; set time zone 'UTC'; reset all; discard all",
        "select pg_advisory_unlock_all(); close all; unlisten *; reset all;",
        "select * from unnest(array[1,2], array['a','b']) with ordinality as u(a, b, n)",
        "select c.relname from pg_catalog.pg_class c where c.relname OPERATOR(pg_catalog.~) '^(t)$' COLLATE pg_catalog.default",
        "create sequence s start 5 increment by 2 no maxvalue cache 1; alter sequence s restart with 1 owned by t.a",
        "create table t (id bigserial primary key, v text default 'x' not null check (v <> ''), unique (v, id))",
        "create table t (id int generated always as identity (start with 10), b int generated always as (id * 2) stored)",
        "create temp table t on commit drop as select 1 as a with no data",
        "create table t (like u including all, c int)",
        "create unique index concurrently if not exists i on t using btree (a desc nulls last, lower(b) text_pattern_ops) include (c) where a > 0",
        "insert into t values (1, default) on conflict (a) where b do update set n = t.n + excluded.n where t.n < 5 returning *",
        "update t as x set (a, b) = (select 1, 2), c = default from u where x.id = u.id returning x.*",
        "delete from only t using u where t.id = u.id returning t.id as gone",
        "merge into t using s on t.id = s.id when matched and s.x then delete when matched then update set a = 1 when not matched then insert (id) values (s.id)",
        "with recursive r(n) as (values (1) union all select n + 1 from r where n < 5) select * from r",
        "with d as materialized (delete from t returning *) select count(*) from d",
        "select a, grouping(a), sum(b) filter (where c) over w from t group by rollup (a, b), grouping sets ((a), ()) window w as (partition by a order by b rows between 1 preceding and unbounded following exclude ties)",
        "select distinct on (a, b) * from t natural left join u cross join lateral (select 1) x join v using (k) as j",
        "(select 1 union select 2) intersect all select 3 order by 1 limit all offset 2 rows",
        "select ((select 1) + 1), ((select 2)), exists (select), array(select 1), (select 1, 2) is null",
        "select * from ((select 1 as a) as x join (select 2 as b) as y on true)",
        "declare c scroll cursor with hold for select 1; fetch backward all from c; move 5 in c; close c",
        "prepare p (int, text) as select $1, $2; execute p (1, 'a'); deallocate p; deallocate all",
        "explain (analyze, costs off, format json) select 1; explain analyze select 1",
        "copy (select 1) to stdout csv header; copy t (a, b) from stdin (format csv, header true, null 'x', force_quote *)",
        "create type mood as enum ('sad', 'ok'); alter type mood add value if not exists 'good' after 'ok'",
        "create domain posint as int check (value > 0) not null default 1",
        "comment on column t.a is 'x'; comment on table t is null; comment on constraint c on t is 'y'",
        "alter table t add column if not exists x int default 5, drop column y cascade, alter column z type text using z::text, alter z set not null, rename constraint a to b",
        "lock table t in share row exclusive mode nowait; savepoint a; rollback to savepoint a; release a",
        "select case a when 1 then 'x' else 'y' end, cast(a as numeric(10, 2)), a::text[], coalesce(a, b), nullif(a, 0)",
        "table t; values (1, 2), (3, 4) order by 1; select; ;",
        "select count(distinct (x)), string_agg(a, ',' order by b desc), percentile_cont(0.5) within group (order by c) from t",
        "select \"Weird Name\".\"x\" as \"select\", t.* from \"Weird Name\", t",
        "select a as value, b year_, c as order from t",
        "listen c; notify c, 'payload'; checkpoint; grant select on t to public; analyze t (a, b)",
        "select * from a left join b on a.x = b.x join c on true, d, lateral f(d.x) as g(y int, z text)",
        "select * from a join b join c on b.x = c.x on a.x = b.x",
        "select interval '1 day' + interval(3) '2 hours', time '12:00', timestamp '2020-01-01'",
        "select * from t where a like any (array['x']) and b ilike 'y' escape '!' and c similar to 'z' and d ~* 'w'",
        "select x is distinct from y, x is not true, x isnull, x notnull, not x, (x, y) overlaps (a, b)",
    ] {
        parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

#[test]
fn errors_say_what_and_where() {
    for (text, message, position) in [
        ("selec 1", "syntax error at or near \"selec\"", 1),
        ("select 1 +", "syntax error at end of input", 11),
        ("select ä from t wher x", "syntax error at or near \"x\"", 22),
        ("select * from", "syntax error at end of input", 14),
        ("select 1 < 2 < 3", "syntax error at or near \"<\"", 14),
        ("select 'abc", "unterminated quoted string at or near \"'abc\"", 8),
        ("select 123abc", "trailing junk after numeric literal at or near \"123abc\"", 8),
        ("insert into t values (1,)", "syntax error at or near \")\"", 25),
        ("select from from", "syntax error at or near \"from\"", 13),
        ("create table t (a int,)", "syntax error at or near \")\"", 23),
        ("select /* open", "unterminated /* comment at or near \"/* open\"", 8),
        ("select a b c", "syntax error at or near \"c\"", 12),
        ("select 1 limit 1, 2", "LIMIT #,# syntax is not supported", 17),
        ("select \"\"", "zero-length delimited identifier at or near \"\"\"\"", 8),
    ] {
        let error = parse(text).expect_err(text);
        assert_eq!((error.message(), error.position()), (message, Some(position)), "{text}");
        assert_eq!(error.state(), SqlState::SYNTAX_ERROR, "{text}");
    }
}

#[test]
fn deep_nesting_is_an_error_and_not_a_stack_overflow() {
    let deep = 100_000;
    for text in [
        format!("select {}1{}", "(".repeat(deep), ")".repeat(deep)),
        format!("select {}", "(".repeat(deep)),
        format!("select {}1{}", "(select ".repeat(deep), ")".repeat(deep)),
        format!("select * from {}t{}", "(".repeat(deep), ")".repeat(deep)),
        format!("select {} 1", "not ".repeat(deep)),
        format!("select {} 1", "- ".repeat(deep)),
        format!("select 1{}", " + 1".repeat(deep)),
        format!("select a{}", "[1]".repeat(deep)),
        format!("select 1{}", "::int".repeat(deep)),
        format!("select {}1{}", "f(".repeat(deep), ")".repeat(deep)),
        format!("select {}1{}", "array[".repeat(deep), "]".repeat(deep)),
        format!("select {}1", "case when ".repeat(deep)),
        format!("select 1{}", " union select 1".repeat(deep)),
        format!("select 1 from a{}", " cross join a".repeat(deep)),
        format!("select 1 from a{}", " join a".repeat(deep)),
        format!("explain {} select 1", "explain ".repeat(deep)),
    ] {
        let error = parse(&text).expect_err(&text[..40]);
        assert!(
            [SqlState::STATEMENT_TOO_COMPLEX, SqlState::SYNTAX_ERROR].contains(&error.state()),
            "{}: {error}",
            &text[..40]
        );
    }
}

#[test]
fn moderate_nesting_and_long_lists_are_taken() {
    for text in [
        format!("select {}1{}", "(".repeat(100), ")".repeat(100)),
        format!("select 1{}", " + 1".repeat(500)),
        format!("select * from t where a in (1{})", ", 1".repeat(200_000)),
        format!("select * from t where true{}", " and a = 1".repeat(10_000)),
        format!("select * from t0{}", ", t".repeat(1_000)),
    ] {
        parse(&text).unwrap_or_else(|error| panic!("{}: {error}", &text[..40]));
    }
}

#[test]
fn types_are_spelled_in_many_ways() {
    for (text, name, modifiers, dimensions) in [
        ("integer", "int4", vec![], 0),
        ("character varying(10)", "varchar", vec![10], 0),
        ("char", "bpchar", vec![1], 0),
        ("numeric(10, -2)", "numeric", vec![10, -2], 0),
        ("timestamp(3) without time zone", "timestamp", vec![3], 0),
        ("float(20)", "float4", vec![], 0),
        ("text[][]", "text", vec![], 2),
        ("int[3]", "int4", vec![], 1),
        ("int array", "int4", vec![], 1),
        ("public.mood", "public.mood", vec![], 0),
        ("bigserial", "bigserial", vec![], 0),
    ] {
        let ty = parse_type(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(
            (ty.name.to_string().as_str(), &ty.modifiers, ty.dimensions),
            (name, &modifiers, dimensions),
            "{text}"
        );
    }
}

#[test]
fn statements_know_their_text_and_their_parameters() {
    let text = " select $2 ; insert into t values ($1) ;";
    let statements = parse(text).expect("both statements parse");
    assert_eq!(statements.len(), 2);
    assert_eq!(&text[statements[0].start..statements[0].end], "select $2");
    assert_eq!((statements[0].parameters, statements[1].parameters), (2, 1));
}

#[test]
fn aliases_follow_with_and_without_as() {
    let statements = parse("select a b, c as select, d from t u, f(1) as g(x)").expect("it parses");
    let Statement::Query(query) = &statements[0].statement else { panic!("a query") };
    let QueryBodySyntax::Select(select) = &query.body else { panic!("a SELECT") };
    let names = select.targets.iter().map(|item| match item {
        SelectItem::Expr { alias, .. } => alias.as_ref().map(|name| name.text.clone()),
        _ => None,
    });
    let names: Vec<_> = names.collect();
    assert_eq!(names, [Some("b".to_string()), Some("select".to_string()), None]);
    assert!(matches!(&select.from[0], TableRef::Table { alias: Some(alias), .. } if alias.name.text == "u"));
    assert!(
        matches!(&select.from[1], TableRef::Function { alias: Some(alias), .. } if alias.columns.len() == 1)
    );
}
