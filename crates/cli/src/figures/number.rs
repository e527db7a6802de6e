//! Numbers for readers: three digits, and a prefix for large ones.

/// A number with three digits.
pub fn short(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return if value > 0.0 { "∞".to_owned() } else { "–".to_owned() };
    }
    // From where rounding gives the next prefix.
    for (unit, prefix) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if size >= 0.9995 * unit {
            return format!("{} {prefix}", digits(value / unit));
        }
    }
    digits(value)
}

/// Three digits without a prefix, and no zeros at the end.
fn digits(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        return "0".to_owned();
    }
    let places = (2 - size.log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{value:.places$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The median; `None` of nothing.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some(f64::midpoint(lower, upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_prefix() {
        let shown = [0.0, 0.0123, 1.0, 1.2345, 12.0, 449.0, 999.6, 1_000.0, 35_567.0, 11.8e6, 2e9].map(short);
        let expected = ["0", "0.0123", "1", "1.23", "12", "449", "1 k", "1 k", "35.6 k", "11.8 M", "2 G"];
        assert_eq!(shown, expected.map(str::to_owned));
        assert_eq!([short(f64::INFINITY), short(f64::NAN), short(-2.5)], ["∞", "–", "-2.5"]);
    }

    #[test]
    fn a_median_is_between_the_middle_ones() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(Vec::new()), None);
    }
}
