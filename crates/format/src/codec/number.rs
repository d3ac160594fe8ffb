//! Numbers as Python prints them.

use std::borrow::Cow;

use rolecall_conversation::json::Number;

/// Returns a number as Python prints it after reading it from JSON. An integer keeps its digits,
/// and any other number becomes the shortest text that parses to the same value.
pub(super) fn print(number: &Number) -> Cow<'_, str> {
    let spelling = number.spelling();
    if !spelling.contains(['.', 'e', 'E']) {
        return Cow::Borrowed(if spelling == "-0" { "0" } else { spelling });
    }
    number.as_f64().map_or(Cow::Borrowed(spelling), |value| Cow::Owned(float(value)))
}

/// Returns Python's `repr` of a float.
fn float(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let shortest = format!("{value:e}");
    let count = shortest.bytes().take_while(|byte| *byte != b'e').filter(u8::is_ascii_digit).count();
    // Of two shortest texts equally near the value, Python prints the even one.
    let even = format!("{value:.*e}", count.saturating_sub(1));
    let is_tie = count >= 16 && even != shortest && even.parse() == Ok(value);
    let scientific = if is_tie { even } else { shortest };
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let plain = match is_tie {
        true => format!("{value:.*}", (count as i32 - 1 - exponent).max(0) as usize),
        false => format!("{value}"),
    };
    if plain.contains('.') { plain } else { plain + ".0" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_printed_as_in_python() {
        let cases = [
            ("1.0", "1.0"),
            ("1e16", "1e+16"),
            ("1e15", "1000000000000000.0"),
            ("1e-7", "1e-07"),
            ("0.0001", "0.0001"),
            ("0.30000000000000004", "0.30000000000000004"),
            ("-0.0", "-0.0"),
            ("5e-324", "5e-324"),
            ("1e999", "inf"),
            ("17647170182373.312", "17647170182373.312"),
            ("-16588558365154.062", "-16588558365154.062"),
            ("-0", "0"),
            ("12", "12"),
        ];
        for (spelling, printed) in cases {
            assert_eq!(print(&Number::from_spelling(spelling).unwrap()), printed);
        }
    }
}
