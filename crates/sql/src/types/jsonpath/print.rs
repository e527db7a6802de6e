//! A path as text.

use std::fmt;

use super::{Condition, Node, Path, Start, Step};
use crate::types::numeric::Numeric;
use crate::types::text::push_json_string;

impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        if self.is_strict {
            out.push_str("strict ");
        }
        node(&self.root, true, &mut out);
        formatter.write_str(&out)
    }
}

/// How tight an expression binds.
fn priority(node: &Node) -> u8 {
    if !node.steps.is_empty() {
        return 6;
    }
    match &node.start {
        Start::Condition(condition) => condition_priority(condition),
        Start::Arithmetic(super::Arithmetic::Add | super::Arithmetic::Subtract, ..) => 3,
        Start::Arithmetic(..) => 4,
        Start::Sign { .. } => 5,
        _ => 6,
    }
}

fn condition_priority(condition: &Condition) -> u8 {
    match condition {
        Condition::Or(..) => 0,
        Condition::And(..) => 1,
        Condition::Compare(..) | Condition::StartsWith(..) => 2,
        _ => 6,
    }
}

/// Appends an expression; `in_brackets`: an operator at its top is to be in parentheses.
fn node(it: &Node, in_brackets: bool, out: &mut String) {
    let has_steps = !it.steps.is_empty();
    // With accessors behind it an operator needs them in any case.
    start(&it.start, in_brackets || has_steps, has_steps, out);
    it.steps.iter().for_each(|it| step(it, out));
}

fn start(it: &Start, in_brackets: bool, has_steps: bool, out: &mut String) {
    match it {
        Start::Root => out.push('$'),
        Start::Current => out.push('@'),
        Start::Last => out.push_str("last"),
        Start::Null => out.push_str("null"),
        Start::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Start::Number(number) if has_steps => parenthesized(number, out),
        Start::Number(number) => out.push_str(&number.to_string()),
        Start::Text(text) => push_json_string(text, out),
        Start::Variable(name) => {
            out.push('$');
            push_json_string(name, out);
        }
        Start::Arithmetic(operator, left, right) => {
            let own = if matches!(operator.symbol(), "+" | "-") { 3 } else { 4 };
            bracketed(in_brackets, out, |out| {
                node(left, priority(left) <= own, out);
                out.push_str(&format!(" {} ", operator.symbol()));
                node(right, priority(right) <= own, out);
            });
        }
        Start::Sign { is_minus, operand } => bracketed(in_brackets, out, |out| {
            out.push(if *is_minus { '-' } else { '+' });
            node(operand, priority(operand) <= 5, out);
        }),
        Start::Condition(it) => {
            // The other conditions have parentheses of their own only before accessors.
            let is_prefixed =
                matches!(**it, Condition::Not(_) | Condition::IsUnknown(_) | Condition::Exists(_));
            if is_prefixed {
                bracketed(has_steps, out, |out| condition(it, false, out));
            } else {
                condition(it, in_brackets, out);
            }
        }
    }
}

fn parenthesized(number: &Numeric, out: &mut String) {
    out.push_str(&format!("({number})"));
}

fn bracketed(in_brackets: bool, out: &mut String, write: impl FnOnce(&mut String)) {
    if in_brackets {
        out.push('(');
    }
    write(out);
    if in_brackets {
        out.push(')');
    }
}

fn condition(it: &Condition, in_brackets: bool, out: &mut String) {
    match it {
        Condition::And(left, right) | Condition::Or(left, right) => {
            let own = condition_priority(it);
            bracketed(in_brackets, out, |out| {
                condition(left, condition_priority(left) <= own, out);
                out.push_str(if own == 0 { " || " } else { " && " });
                condition(right, condition_priority(right) <= own, out);
            });
        }
        Condition::Not(operand) => {
            out.push_str("!(");
            condition(operand, false, out);
            out.push(')');
        }
        Condition::IsUnknown(operand) => {
            out.push('(');
            condition(operand, false, out);
            out.push_str(") is unknown");
        }
        Condition::Compare(operator, left, right) => bracketed(in_brackets, out, |out| {
            node(left, priority(left) <= 2, out);
            out.push_str(&format!(" {} ", operator.symbol()));
            node(right, priority(right) <= 2, out);
        }),
        Condition::StartsWith(left, right) => bracketed(in_brackets, out, |out| {
            node(left, priority(left) <= 2, out);
            out.push_str(" starts with ");
            node(right, priority(right) <= 2, out);
        }),
        Condition::LikeRegex(operand, pattern, flags) => bracketed(in_brackets, out, |out| {
            node(operand, true, out);
            out.push_str(" like_regex ");
            push_json_string(pattern, out);
            let letters = [
                (flags.ignores_case, 'i'),
                (flags.dot_is_all, 's'),
                (flags.has_lines, 'm'),
                (flags.is_literal, 'q'),
            ];
            let letters: String = letters.iter().filter(|(is_set, _)| *is_set).map(|(_, it)| *it).collect();
            if !letters.is_empty() {
                out.push_str(&format!(" flag \"{letters}\""));
            }
        }),
        Condition::Exists(operand) => {
            out.push_str("exists (");
            node(operand, false, out);
            out.push(')');
        }
    }
}

fn step(it: &Step, out: &mut String) {
    match it {
        Step::Member(key) => {
            out.push('.');
            push_json_string(key, out);
        }
        Step::AnyMember => out.push_str(".*"),
        Step::AnyElement => out.push_str("[*]"),
        Step::Elements(list) => {
            out.push('[');
            for (at, (from, to)) in list.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                node(from, false, out);
                if let Some(to) = to {
                    out.push_str(" to ");
                    node(to, false, out);
                }
            }
            out.push(']');
        }
        Step::Anywhere { first, last } => match (first, last) {
            (Some(0), None) => out.push_str(".**"),
            (None, None) => out.push_str(".**{last}"),
            (Some(first), Some(last)) if first == last => out.push_str(&format!(".**{{{first}}}")),
            (None, Some(last)) => out.push_str(&format!(".**{{last to {last}}}")),
            (Some(first), None) => out.push_str(&format!(".**{{{first} to last}}")),
            (Some(first), Some(last)) => out.push_str(&format!(".**{{{first} to {last}}}")),
        },
        Step::Filter(inner) => {
            out.push_str("?(");
            condition(inner, false, out);
            out.push(')');
        }
        Step::Method(method) => out.push_str(&format!(".{}()", method.name())),
        Step::Datetime(template) => {
            out.push_str(".datetime(");
            if let Some(template) = template {
                push_json_string(template, out);
            }
            out.push(')');
        }
    }
}
