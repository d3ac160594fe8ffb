//! Python's `repr` of floats, and formatting with a precision.

/// Formats a float as Python's `repr` does: with the fewest digits that parse back to the same
/// number.
pub(crate) fn repr(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let mut scientific = format!("{value:e}");
    let count = scientific.bytes().take_while(|byte| *byte != b'e').filter(u8::is_ascii_digit).count();
    let mut is_tie = false;
    if count >= 16 {
        // If two candidates are equally short and equally near, Python takes the even one.
        let even = format!("{value:.*e}", count - 1);
        is_tie = even != scientific && even.parse() == Ok(value);
        if is_tie {
            scientific = even;
        }
    }
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if is_tie && (-4..16).contains(&exponent) {
        let decimals = (count as i32 - 1 - exponent).max(0) as usize;
        let plain = format!("{value:.decimals$}");
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    if (-4..16).contains(&exponent) {
        let plain = format!("{value}");
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    with_exponent(digits, exponent, 'e')
}

fn with_exponent(digits: &str, exponent: i32, letter: char) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}{letter}{sign}{:02}", exponent.abs())
}

/// The style of a float formatted with a precision.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// `%f`
    Fixed,
    /// `%e`
    Exponent,
    /// `%g`
    General,
    /// Like `%g`, but with a digit after the point, which must fit the precision.
    Short,
}

/// Formats the absolute value of a float as C's `printf` does. `keeps_zeros` is C's `#`.
pub(crate) fn format(value: f64, style: Style, precision: usize, is_upper: bool, keeps_zeros: bool) -> String {
    let value = value.abs();
    let text = if value.is_nan() {
        "nan".to_owned()
    } else if value.is_infinite() {
        "inf".to_owned()
    } else {
        // No float has more digits than this. Rust limits precisions to 16 bits.
        let digits = precision.min(MOST_DIGITS);
        let zeros = "0".repeat(precision - digits);
        match style {
            Style::Fixed => {
                let text = format!("{value:.digits$}") + &zeros;
                if keeps_zeros && precision == 0 { text + "." } else { text }
            }
            Style::Exponent => insert_zeros(exponent_form(value, digits, keeps_zeros), &zeros),
            Style::General | Style::Short => {
                let digits = digits.max(1);
                let most = digits as i32 - i32::from(style == Style::Short);
                let text = general_form(value, digits, keeps_zeros, most);
                let text = if keeps_zeros { insert_zeros(text, &zeros) } else { text };
                if style == Style::Short && !text.contains(['.', 'e']) { text + ".0" } else { text }
            }
        }
    };
    if is_upper { text.to_uppercase() } else { text }
}

/// An upper bound on the digits of any float.
const MOST_DIGITS: usize = 1100;

fn insert_zeros(text: String, zeros: &str) -> String {
    match text.split_once('e') {
        _ if zeros.is_empty() => text,
        Some((digits, exponent)) => format!("{digits}{zeros}e{exponent}"),
        None => text + zeros,
    }
}

fn exponent_form(value: f64, precision: usize, keeps_point: bool) -> String {
    let scientific = format!("{value:.precision$e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let point = if keeps_point && precision == 0 { "." } else { "" };
    with_exponent(&format!("{digits}{point}"), exponent.parse().unwrap_or(0), 'e')
}

/// Formats without an exponent as long as the exponent is below `most`.
fn general_form(value: f64, precision: usize, keeps_zeros: bool, most: i32) -> String {
    let scientific = format!("{value:.*e}", precision - 1);
    let exponent: i32 = scientific.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    let trim = |text: String| match text.contains('.') && !keeps_zeros {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    };
    let pointed = |text: String| if keeps_zeros && !text.contains('.') { text + "." } else { text };
    if exponent < -4 || exponent >= most {
        let digits = scientific.split_once('e').map_or(scientific.as_str(), |(digits, _)| digits).to_owned();
        return with_exponent(&pointed(trim(digits)), exponent, 'e');
    }
    let decimals = (precision as i32 - 1 - exponent).max(0) as usize;
    pointed(trim(format!("{value:.decimals$}")))
}

#[cfg(test)]
mod tests {
    use super::{Style, format, repr};

    #[test]
    fn floats_print_as_in_python() {
        let cases = [
            (1.0, "1.0"),
            (1e16, "1e+16"),
            (1e15, "1000000000000000.0"),
            (1e-7, "1e-07"),
            (0.0001, "0.0001"),
            (-3e-7, "-3e-07"),
            (0.1 + 0.2, "0.30000000000000004"),
            (-0.0, "-0.0"),
            (5e-324, "5e-324"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
            (123456789.125, "123456789.125"),
            // Two texts of 17 digits are equally near.
            (6600041648207619.0 / 374.0, "17647170182373.312"),
            (-3201591764474734.0 / 193.0, "-16588558365154.062"),
        ];
        for (value, text) in cases {
            assert_eq!(repr(value), text);
        }
    }

    #[test]
    fn precisions_are_those_of_c() {
        assert_eq!(format(2.5, Style::Fixed, 0, false, false), "2");
        assert_eq!(format(1234.5678, Style::Exponent, 3, true, false), "1.235E+03");
        assert_eq!(format(0.00001234, Style::General, 6, false, false), "1.234e-05");
        assert_eq!(format(100000.0, Style::General, 6, false, false), "100000");
        assert_eq!(format(1000000.0, Style::General, 6, false, false), "1e+06");
        assert_eq!(format(0.5, Style::General, 6, false, true), "0.500000");
        assert_eq!(format(1.5, Style::Fixed, 70_000, false, false).len(), 70_002);
        assert!(format(1.5, Style::Exponent, 70_000, false, false).ends_with("000e+00"));
        assert_eq!(format(255.0, Style::General, 3, false, true), "255.");
        assert_eq!(format(1e10, Style::General, 1, false, true), "1.e+10");
    }
}
