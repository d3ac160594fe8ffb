//! The time that templates see, as JSON: the numbers from the year to the microsecond.

use std::ops::RangeInclusive;

use rolecall_conversation::Json;
use rolecall_render::DateTime;

/// Returns a time as JSON.
pub(crate) fn write(now: DateTime) -> Json {
    let DateTime { year, month, day, hour, minute, second, microsecond } = now;
    let rest = [month, day, hour, minute, second, microsecond].map(i64::from);
    Json::Array([i64::from(year)].into_iter().chain(rest).map(Json::from).collect())
}

/// Reads a time, or returns `None` if the value is none.
pub(crate) fn read(saved: &Json) -> Option<DateTime> {
    let number = |item: &Json| match item {
        Json::Number(number) => number.as_i64().and_then(|number| u32::try_from(number).ok()),
        _ => None,
    };
    let numbers = saved.as_array()?.iter().map(number).collect::<Option<Vec<u32>>>()?;
    let [year, month, day, hour, minute, second, microsecond] = numbers[..] else { return None };
    let ranges: [(u32, RangeInclusive<u32>); 7] = [
        (year, 0..=9999),
        (month, 1..=12),
        (day, 1..=31),
        (hour, 0..=23),
        (minute, 0..=59),
        (second, 0..=60),
        (microsecond, 0..=999_999),
    ];
    ranges.iter().all(|(number, range)| range.contains(number)).then_some(())?;
    Some(DateTime { year: i32::try_from(year).ok()?, month, day, hour, minute, second, microsecond })
}
