//! The line of a statement that an error is in, with a mark below the place: cut to the width of a terminal as libpq cuts it.

use unicode_width::UnicodeWidthChar;

/// Columns of a line that are shown.
const SHOWN: usize = 60;

/// Least distance of the mark from the place behind it at which the line is cut.
const RIGHT_MIN: usize = 10;

/// The line that a position (in letters, from 1 on) is in, and the mark; each begins a line. Empty: the position is outside.
pub fn excerpt(text: &str, position: usize) -> String {
    let letters: Vec<char> =
        text.trim_end().chars().map(|letter| if letter == '\t' { ' ' } else { letter }).collect();
    let place = position.saturating_sub(1);
    if place > letters.len() {
        return String::new();
    }
    let number = letters[..place].iter().filter(|letter| **letter == '\n').count() + 1;
    let mut begin = letters[..place].iter().rposition(|letter| *letter == '\n').map_or(0, |at| at + 1);
    let length = letters[place..].iter().position(|letter| matches!(letter, '\n' | '\r'));
    let mut end = length.map_or(letters.len(), |length| place + length);
    let columns =
        |from: usize, to: usize| letters[from..to].iter().map(|it| it.width().unwrap_or(0)).sum::<usize>();
    let (mut is_cut_left, mut is_cut_right) = (false, false);
    if columns(begin, end) > SHOWN {
        if SHOWN >= columns(begin, place) + RIGHT_MIN {
            while columns(begin, end) > SHOWN {
                end -= 1;
            }
            is_cut_right = true;
        } else {
            while RIGHT_MIN < columns(place, end) {
                end -= 1;
                is_cut_right = true;
            }
            while columns(begin, end) > SHOWN {
                begin += 1;
                is_cut_left = true;
            }
        }
    }
    let head = format!("LINE {number}: {}", if is_cut_left { "..." } else { "" });
    let line: String = letters[begin..end].iter().collect();
    let tail = if is_cut_right { "..." } else { "" };
    format!("\n{head}{line}{tail}\n{}^", " ".repeat(head.len() + columns(begin, place)))
}

#[cfg(test)]
mod tests {
    use super::excerpt;

    #[test]
    fn an_error_points_into_its_line() {
        assert_eq!(excerpt("select 1,\n  nope", 13), "\nLINE 2:   nope\n          ^");
        assert_eq!(excerpt("x", 1), "\nLINE 1: x\n        ^");
        assert_eq!(excerpt("x", 9), "");
        assert_eq!(excerpt("\tx", 2), "\nLINE 1:  x\n         ^");
    }

    /// Tests that excerpts are those that psql shows of the same errors.
    #[test]
    fn long_lines_are_cut_as_psql_cuts_them() {
        let long = "a".repeat(100);
        assert_eq!(
            excerpt(&format!("select nope, '{long}';"), 8),
            format!("\nLINE 1: select nope, '{}...\n               ^", "a".repeat(46))
        );
        assert_eq!(
            excerpt(&format!("select '{long}', nope, '{long}';"), 112),
            format!("\nLINE 1: ...{}', nope, 'aaa...\n{}^", "a".repeat(47), " ".repeat(8 + 3 + 50))
        );
        assert_eq!(
            excerpt(&format!("select '{long}', nope;"), 112),
            format!("\nLINE 1: ...{}', nope;\n{}^", "a".repeat(52), " ".repeat(8 + 3 + 55))
        );
    }

    #[test]
    fn wide_letters_take_two_columns() {
        assert_eq!(
            excerpt("select '日本', nope", 14),
            "\nLINE 1: select '日本', nope\n                       ^"
        );
    }
}
