//! Names that are chosen for constraints, indexes, sequences and hidden columns.

/// The limit of a name's length.
const NAME_BYTES_MAX: usize = 63;

/// The name of a hidden column: `owner` is the oid of its index, or of a table that was made with it.
pub(crate) fn hidden_name(owner: u32, number: usize) -> String {
    format!("#index.{owner}.{number}")
}

/// The first free name of `first_second_label`, `first_second_label1`, …; without a `second`, of `first_label`, ….
///
/// The label stays whole within 63 bytes, and the longer of the other two parts is cut, as in PostgreSQL: sequences, keys
/// and indexes of a table with a long name have different names.
pub(crate) fn free_name(first: &str, second: &str, label: &str, taken: impl Fn(&str) -> bool) -> String {
    let name = |number: &str| {
        let separators = if second.is_empty() { 1 } else { 2 };
        let bytes_max = NAME_BYTES_MAX.saturating_sub(label.len() + number.len() + separators);
        let (first, second) = cut_longer(first, second, bytes_max);
        let second = if second.is_empty() { String::new() } else { format!("_{second}") };
        format!("{first}{second}_{label}{number}")
    };
    let plain = name("");
    if !taken(&plain) {
        return plain;
    }
    (1..).map(|number: u32| name(&number.to_string())).find(|name| !taken(name)).unwrap_or(plain)
}

/// Cuts the longer of two texts until they have at most `bytes_max` bytes together, and returns both.
fn cut_longer<'t>(first: &'t str, second: &'t str, bytes_max: usize) -> (&'t str, &'t str) {
    let (mut first_end, mut second_end) = (first.len(), second.len());
    while first_end + second_end > bytes_max {
        let longer = if first_end > second_end { &mut first_end } else { &mut second_end };
        *longer -= 1;
    }
    (&first[..first.floor_char_boundary(first_end)], &second[..second.floor_char_boundary(second_end)])
}

pub(super) fn free_name_long(base: &str, taken: impl Fn(&str) -> bool) -> String {
    if !taken(base) {
        return base.to_string();
    }
    (1..).map(|number: u32| format!("{base}#{number}")).find(|name| !taken(name)).unwrap_or_default()
}
