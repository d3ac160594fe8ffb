use std::fmt;
use std::time::Duration;

/// A value as it was given.
#[derive(Clone, Debug, PartialEq)]
pub enum RawValue<'a> {
    /// The words of a flag or a variable, which have no type.
    Loose(&'a str),
    /// A text of the file.
    Text(&'a str),
    /// A list of texts of the file.
    Texts(Vec<&'a str>),
    /// A whole number of the file.
    Whole(i64),
    /// Another number of the file.
    Number(f64),
    /// `true` or `false` in the file.
    Switch(bool),
    /// Anything else, by the word for its type.
    Other(&'a str),
}

impl<'a> RawValue<'a> {
    pub fn text(&self) -> Option<&'a str> {
        match self {
            RawValue::Loose(text) | RawValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns a list of texts. In a flag or a variable, there are commas between them.
    pub fn texts(&self) -> Option<Vec<&'a str>> {
        match self {
            RawValue::Loose(text) => Some(text.split(',').map(str::trim).collect()),
            RawValue::Text(text) => Some(vec![*text]),
            RawValue::Texts(texts) => Some(texts.clone()),
            _ => None,
        }
    }

    pub fn count(&self) -> Option<usize> {
        match self {
            RawValue::Loose(text) => text.parse().ok(),
            RawValue::Whole(number) => usize::try_from(*number).ok(),
            _ => None,
        }
    }

    pub fn switch(&self) -> Option<bool> {
        match self {
            RawValue::Switch(value) => Some(*value),
            RawValue::Loose("true" | "1") => Some(true),
            RawValue::Loose("false" | "0") => Some(false),
            _ => None,
        }
    }

    /// Returns a number of bytes. Units are powers of 1024.
    pub fn size(&self) -> Option<usize> {
        let Some(text) = self.text() else { return self.count() };
        let (number, unit) = split(text)?;
        let shift = match unit.trim_end_matches('B').trim_end_matches('i') {
            "" => 0,
            "k" | "K" => 10,
            "M" => 20,
            "G" => 30,
            "T" => 40,
            _ => return None,
        };
        number.parse::<usize>().ok()?.checked_mul(1_usize.checked_shl(shift)?)
    }

    /// Returns a time. A number without a unit is in seconds.
    pub fn time(&self) -> Option<Duration> {
        let seconds = match self {
            RawValue::Whole(number) => *number as f64,
            RawValue::Number(number) => *number,
            RawValue::Loose(text) | RawValue::Text(text) => {
                let (number, unit) = split(text)?;
                let factor = match unit {
                    "ms" => 0.001,
                    "s" | "" => 1.0,
                    "m" | "min" => 60.0,
                    "h" => 3600.0,
                    "d" => 86_400.0,
                    _ => return None,
                };
                number.parse::<f64>().ok()? * factor
            }
            RawValue::Texts(_) | RawValue::Switch(_) | RawValue::Other(_) => return None,
        };
        // Deadlines are sums with the clock, which must not overflow.
        (0.0..=LONGEST).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
    }
}

impl fmt::Display for RawValue<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RawValue::Loose(text) | RawValue::Text(text) => write!(formatter, "`{text}`"),
            RawValue::Texts(texts) => write!(formatter, "`{}`", texts.join("`, `")),
            RawValue::Whole(number) => write!(formatter, "{number}"),
            RawValue::Number(number) => write!(formatter, "{number}"),
            RawValue::Switch(value) => write!(formatter, "{value}"),
            RawValue::Other(kind) => formatter.write_str(kind),
        }
    }
}

/// The longest time, in seconds: ten years.
const LONGEST: f64 = 315_360_000.0;

/// Splits a number from its unit.
fn split(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let at = text.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    (!number.is_empty()).then(|| (number, unit.trim()))
}

pub fn shown_time(time: Duration) -> String {
    match time.subsec_millis() {
        0 => format!("{}s", time.as_secs()),
        _ => format!("{}ms", time.as_millis()),
    }
}

pub fn shown_size(bytes: u64) -> String {
    for (unit, size) in [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if bytes >= size && bytes.is_multiple_of(size) {
            return format!("{}{unit}", bytes / size);
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::{Duration, RawValue, shown_size, shown_time};

    #[test]
    fn times_and_sizes_are_read_with_their_units() {
        for (text, wanted) in [
            ("500ms", Some(500)),
            ("30s", Some(30_000)),
            ("1.5 s", Some(1_500)),
            ("5m", Some(300_000)),
            ("2h", Some(7_200_000)),
            ("7", Some(7_000)),
            ("s", None),
            ("-1s", None),
            ("1 fortnight", None),
            ("99999999999d", None),
            ("1.2.3s", None),
            ("", None),
        ] {
            assert_eq!(RawValue::Loose(text).time(), wanted.map(Duration::from_millis), "{text}");
        }
        for (text, wanted) in [
            ("4096", Some(4096)),
            ("8MiB", Some(8 << 20)),
            ("8 M", Some(8 << 20)),
            ("1k", Some(1024)),
            ("1KB", Some(1024)),
            ("99999999999999T", None),
            ("1.5MiB", None),
            ("MiB", None),
            ("8 apples", None),
        ] {
            assert_eq!(RawValue::Text(text).size(), wanted, "{text}");
        }
        assert_eq!((RawValue::Whole(-1).count(), RawValue::Number(f64::NAN).time()), (None, None));
        assert_eq!(shown_time(Duration::from_millis(1_500)) + &shown_size(8 << 20), "1500ms8MiB");
    }
}
