//! Figures as people read them.

use std::time::Duration;

/// A whole number with commas between the thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A rate: whole numbers when large, and decimals when small.
pub fn rate(per_second: f64) -> String {
    if per_second >= 100.0 { grouped(per_second.round() as u64) } else { format!("{per_second:.1}") }
}

/// A duration in the unit that fits it.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.2} ms", s * 1e3),
        s if s >= 1e-6 => format!("{:.1} µs", s * 1e6),
        s => format!("{:.0} ns", s * 1e9),
    }
}

/// A number of nanoseconds as a duration.
pub fn nanoseconds(nanoseconds: f64) -> String {
    duration(Duration::from_nanos(nanoseconds.max(0.0) as u64))
}

/// A share in percent.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Bytes in the unit that fits them.
pub fn bytes(count: u64) -> String {
    let mut value = count as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "B" { format!("{count} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        assert_eq!([0, 12, 999, 1_000, 1_234_567].map(grouped), ["0", "12", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn durations_take_the_unit_that_fits() {
        let shown = [1.5, 0.0025, 0.000_012_3, 0.000_000_45].map(|s| duration(Duration::from_secs_f64(s)));
        assert_eq!(shown, ["1.50 s", "2.50 ms", "12.3 µs", "450 ns"]);
        assert_eq!(nanoseconds(-1.0), "0 ns");
    }

    #[test]
    fn rates_shares_and_bytes() {
        assert_eq!([rate(3.25), rate(12_345.6)], ["3.2", "12,346"]);
        assert_eq!(percent(0.1234), "12.3 %");
        assert_eq!(
            [bytes(12), bytes(2_048), bytes(5 << 30), bytes(3 << 40)],
            ["12 B", "2.0 KiB", "5.0 GiB", "3.0 TiB"]
        );
    }
}
