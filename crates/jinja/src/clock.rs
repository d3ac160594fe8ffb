use std::fmt;
use std::str::FromStr;

/// A source of the current time for `strftime_now`.
pub trait Clock {
    /// Returns the local time.
    fn now(&self) -> DateTime;
}

/// A local time without a time zone, as Python's `datetime.now()` returns it.
///
/// ```
/// use rolecall_jinja::{Context, DateTime, Environment, Limits, Template};
/// let now = DateTime { year: 2026, month: 11, day: 21, hour: 12, minute: 34, second: 56, microsecond: 0 };
/// let environment = Environment { clock: Some(&now), ..Environment::default() };
/// let template = Template::compile("{{ strftime_now('%d %b %Y') }}", &Limits::default())?;
/// assert_eq!(template.render(&Context::new(), &environment)?.text(), "21 Nov 2026");
/// # Ok::<(), rolecall_jinja::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DateTime {
    /// The year.
    pub year: i32,
    /// The month, from 1.
    pub month: u32,
    /// The day of the month, from 1.
    pub day: u32,
    /// The hour, from 0.
    pub hour: u32,
    /// The minute.
    pub minute: u32,
    /// The second.
    pub second: u32,
    /// The microsecond.
    pub microsecond: u32,
}

impl Clock for DateTime {
    fn now(&self) -> DateTime {
        *self
    }
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Parses `2026-11-21`, `2026-11-21T12:34` or `2026-11-21T12:34:56`.
///
/// ```
/// use rolecall_jinja::DateTime;
/// let time: DateTime = "2026-11-21T12:34:56".parse()?;
/// assert_eq!((time.year, time.day, time.second), (2026, 21, 56));
/// assert!("2026-02-30".parse::<DateTime>().is_err());
/// # Ok::<(), rolecall_jinja::NotATime>(())
/// ```
impl FromStr for DateTime {
    type Err = NotATime;

    fn from_str(text: &str) -> Result<DateTime, NotATime> {
        let (date, time) = text.split_once('T').unwrap_or((text, "00:00"));
        let numbers = |text: &str, sign: char| -> Option<Vec<u32>> {
            let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            text.split(sign).map(|part| part.parse().ok().filter(|_| digits(part))).collect()
        };
        let (date, time) = numbers(date, '-').zip(numbers(time, ':')).ok_or(NotATime)?;
        let (&[year @ 1..=9999, month @ 1..=12, day], &[hour @ 0..=23, minute @ 0..=59, ref rest @ ..]) =
            (date.as_slice(), time.as_slice())
        else {
            return Err(NotATime);
        };
        let second = match *rest {
            [] => 0,
            [second @ 0..=59] => second,
            _ => return Err(NotATime),
        };
        match (1..=days_of(month, year as i32)).contains(&day) {
            true => Ok(DateTime { year: year as i32, month, day, hour, minute, second, microsecond: 0 }),
            false => Err(NotATime),
        }
    }
}

/// Returns the number of days of a month.
fn days_of(month: u32, year: i32) -> u32 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The error for text that is not a valid time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotATime;

impl fmt::Display for NotATime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a time like 2026-11-21 or 2026-11-21T12:34:56")
    }
}

impl std::error::Error for NotATime {}

impl DateTime {
    /// Returns the same time on the next day.
    ///
    /// ```
    /// use rolecall_jinja::DateTime;
    /// let time: DateTime = "2028-02-29T12:34".parse()?;
    /// assert_eq!(time.next_day(), "2028-03-01T12:34".parse()?);
    /// # Ok::<(), rolecall_jinja::NotATime>(())
    /// ```
    #[must_use]
    pub fn next_day(self) -> DateTime {
        match (self.day < days_of(self.month, self.year), self.month) {
            (true, _) => DateTime { day: self.day + 1, ..self },
            (false, 12) => DateTime { year: self.year + 1, month: 1, day: 1, ..self },
            (false, month) => DateTime { month: month + 1, day: 1, ..self },
        }
    }

    /// Returns the UTC time this many seconds after the start of 1970, or `None` outside Python's
    /// range of years 1 to 9999.
    ///
    /// ```
    /// use rolecall_jinja::DateTime;
    /// let time = DateTime::from_unix(951_827_696).unwrap();
    /// assert_eq!((time.year, time.month, time.day), (2000, 2, 29));
    /// assert_eq!((time.hour, time.minute, time.second), (12, 34, 56));
    /// ```
    pub fn from_unix(seconds: i64) -> Option<DateTime> {
        let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        // Years start in March, so that the leap day is the last day of a year.
        let days = days.checked_add(719_468)?;
        let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let year = era * 400 + year + i64::from(month >= 10);
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = i32::try_from(year).ok().filter(|year| (1..=9999).contains(year))?;
        Some(DateTime {
            year,
            month: month as u32,
            day: day as u32,
            hour: (rest / 3_600) as u32,
            minute: (rest / 60 % 60) as u32,
            second: (rest % 60) as u32,
            microsecond: 0,
        })
    }

    fn days_before_month(self) -> i64 {
        let leap = (self.year % 4 == 0 && self.year % 100 != 0) || self.year % 400 == 0;
        let days = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
        let month = (self.month.clamp(1, 12) - 1) as usize;
        days[month] + i64::from(leap && month >= 2)
    }

    fn day_of_year(self) -> i64 {
        self.days_before_month() + i64::from(self.day)
    }

    /// Returns the number of days since 1 January of year 1, a Monday.
    fn ordinal(self) -> i64 {
        let before = i64::from(self.year) - 1;
        before * 365 + before.div_euclid(4) - before.div_euclid(100) + before.div_euclid(400) + self.day_of_year() - 1
    }

    /// Returns the day of the week, where 0 is Sunday.
    fn weekday(self) -> i64 {
        (self.ordinal() + 1).rem_euclid(7)
    }

    /// Returns the ISO year and week.
    fn iso_week(self) -> (i64, i64) {
        let monday_based = (self.weekday() + 6) % 7;
        let week = (self.day_of_year() - 1 - monday_based + 10) / 7;
        let year = i64::from(self.year);
        let weeks_of = |year: i64| {
            let first = DateTime { year: year as i32, month: 1, day: 1, ..self };
            let last = DateTime { year: year as i32, month: 12, day: 31, ..self };
            if first.weekday() == 4 || last.weekday() == 4 { 53 } else { 52 }
        };
        match week {
            0 => (year - 1, weeks_of(year - 1)),
            53 if weeks_of(year) == 52 => (year + 1, 1),
            week => (year, week),
        }
    }

    /// Formats the time as C's `strftime` does in the C locale. Unknown directives are kept as
    /// written.
    pub(crate) fn format(self, format: &str) -> String {
        use std::fmt::Write;
        let mut out = String::with_capacity(format.len() + 16);
        let mut rest = format.chars();
        while let Some(c) = rest.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            let mut flag = None;
            let mut directive = rest.next();
            if let Some(mark @ ('-' | '_' | '0' | '^' | '#')) = directive {
                flag = Some(mark);
                directive = rest.next();
            }
            let Some(directive) = directive else {
                out.push('%');
                out.extend(flag);
                break;
            };
            let Some(text) = self.directive(directive, flag) else {
                let _ = write!(out, "%{}{directive}", flag.map(String::from).unwrap_or_default());
                continue;
            };
            match flag {
                Some('^') => out.push_str(&text.to_uppercase()),
                Some('#') if text.chars().any(char::is_lowercase) => out.push_str(&text.to_uppercase()),
                Some('#') => out.push_str(&text.to_lowercase()),
                _ => out.push_str(&text),
            }
        }
        out
    }

    /// Returns the text of a directive, or `None` if there is none of this letter.
    fn directive(self, directive: char, flag: Option<char>) -> Option<String> {
        let hour12 = match self.hour % 12 {
            0 => 12,
            hour => hour,
        };
        let month = MONTHS[(self.month.clamp(1, 12) - 1) as usize];
        let weekday = WEEKDAYS[self.weekday() as usize];
        let padded = |value: i64, width: usize, pad: char| match flag {
            Some('-') => value.to_string(),
            Some('_') => format!("{value:width$}"),
            Some('0') => format!("{value:0width$}"),
            _ if pad == ' ' => format!("{value:width$}"),
            _ => format!("{value:0width$}"),
        };
        let day_of_year = self.day_of_year();
        Some(match directive {
            'a' => weekday[..3].to_owned(),
            'A' => weekday.to_owned(),
            'b' | 'h' => month[..3].to_owned(),
            'B' => month.to_owned(),
            'c' => self.format("%a %b %e %H:%M:%S %Y"),
            'C' => padded(i64::from(self.year).div_euclid(100), 2, '0'),
            'd' => padded(self.day.into(), 2, '0'),
            'D' | 'x' => self.format("%m/%d/%y"),
            'e' => padded(self.day.into(), 2, ' '),
            'f' => format!("{:06}", self.microsecond),
            'F' => self.format("%Y-%m-%d"),
            'g' => padded(self.iso_week().0.rem_euclid(100), 2, '0'),
            'G' => self.iso_week().0.to_string(),
            'H' => padded(self.hour.into(), 2, '0'),
            'I' => padded(hour12.into(), 2, '0'),
            'j' => padded(day_of_year, 3, '0'),
            'k' => padded(self.hour.into(), 2, ' '),
            'l' => padded(hour12.into(), 2, ' '),
            'm' => padded(self.month.into(), 2, '0'),
            'M' => padded(self.minute.into(), 2, '0'),
            'n' => "\n".to_owned(),
            'p' => if self.hour < 12 { "AM" } else { "PM" }.to_owned(),
            'P' => if self.hour < 12 { "am" } else { "pm" }.to_owned(),
            'r' => self.format("%I:%M:%S %p"),
            'R' => self.format("%H:%M"),
            'S' => padded(self.second.into(), 2, '0'),
            't' => "\t".to_owned(),
            'T' | 'X' => self.format("%H:%M:%S"),
            'u' => (((self.weekday() + 6) % 7) + 1).to_string(),
            'U' => padded((day_of_year + 6 - self.weekday()) / 7, 2, '0'),
            'V' => padded(self.iso_week().1, 2, '0'),
            'w' => self.weekday().to_string(),
            'W' => padded((day_of_year + 6 - (self.weekday() + 6) % 7) / 7, 2, '0'),
            'y' => padded(i64::from(self.year).rem_euclid(100), 2, '0'),
            'Y' => self.year.to_string(),
            'z' | 'Z' => String::new(),
            '%' => "%".to_owned(),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::DateTime;

    #[test]
    fn weeks_and_days_are_those_of_c() {
        let at = |year, month, day| DateTime { year, month, day, hour: 0, minute: 5, second: 9, microsecond: 7 };
        assert_eq!(at(2026, 11, 21).format("%A %j %U %W %G-%V %u %w"), "Saturday 325 46 46 2026-47 6 6");
        assert_eq!(at(2021, 1, 3).format("%a %j %U %W %G-%V"), "Sun 003 01 00 2020-53");
        assert_eq!(at(2024, 12, 30).format("%G-%V %-d.%-m %e %I%p %f %%"), "2025-01 30.12 30 12AM 000007 %");
        assert_eq!(at(2024, 2, 5).format("%e|%-d|%y|%q"), " 5|5|24|%q");
    }

    #[test]
    fn the_days_of_a_year_have_no_gap() {
        for (year, february) in [(2023, 28), (2024, 29)] {
            let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            let days = (1..).zip(months).flat_map(|(month, days)| (1..=days).map(move |day| (month, day)));
            for ((month, day), number) in days.zip(1..) {
                let at = DateTime { year, month, day, hour: 0, minute: 0, second: 0, microsecond: 0 };
                assert_eq!(at.format("%-j"), number.to_string(), "{year}-{month}-{day}");
            }
        }
    }
}
