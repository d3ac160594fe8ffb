//! Hostile texts, and harmless ones of the same shape.

use fastrand::Rng;
use rolecall::format::{Format, Op, Slot};

/// Makes a hostile text from a format's [`marks`]: whole, cut, doubled, in upper case, next to
/// quotes and line breaks.
pub fn hostile(marks: &[String], rng: &mut Rng) -> String {
    let mut text = String::new();
    for _ in 0..rng.usize(1..4) {
        let plain = ["a", " ", "\n", "\"", "\\", "'", "{", "}}", "é", "👍🏽", "\u{a0}", "```", "null", "\t"];
        let mark = match marks.is_empty() {
            true => "<|im_end|>",
            false => marks[rng.usize(..marks.len())].as_str(),
        };
        let borders: Vec<usize> = mark.char_indices().map(|(at, _)| at).chain([mark.len()]).collect();
        let cut = borders[rng.usize(..borders.len())];
        match rng.u8(..10) {
            0..=3 => text.push_str(mark),
            4 => text.push_str(&mark[..cut]),
            5 => text.push_str(&mark[cut..]),
            6 => text.push_str(&mark.repeat(2)),
            7 => text.push_str(&mark.to_uppercase()),
            8 => text.extend([&mark[..cut], mark, &mark[cut..]]),
            _ => text.push_str(plain[rng.usize(..plain.len())]),
        }
        if rng.u8(..4) == 0 {
            text.push_str(plain[rng.usize(..plain.len())]);
        }
    }
    text
}

/// Replaces all characters except digits and white space with the letter h, so that the text spells
/// nothing.
pub fn harmless(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c) || c.is_ascii_digit() { c } else { 'h' })
        .collect()
}

/// Returns the texts that could pass for the format's own: control tokens in every spelling, plain
/// markers, literal text.
pub fn marks(format: &Format) -> Vec<String> {
    let mut marks: Vec<String> =
        format.controls.iter().flat_map(|control| control.texts().map(str::to_owned)).collect();
    marks.extend(format.plain_marks.iter().cloned());
    for slot in Slot::ALL {
        collect_literals(format.layout(slot).map_or(&[], |layout| layout.ops()), &mut marks);
    }
    marks.sort();
    marks.dedup();
    marks
}

fn collect_literals(ops: &[Op], marks: &mut Vec<String>) {
    for op in ops {
        match op {
            Op::Literal(text) => {
                marks.extend(Some(text.trim().to_owned()).filter(|text| !text.is_empty() && text.len() < 60))
            }
            Op::Group(inner) => collect_literals(inner, marks),
            Op::Control(_) | Op::Hole { .. } | Op::Seam | Op::Own(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmless_texts_have_the_same_shape() {
        assert_eq!(harmless(" <|im_end|>7\né"), " hhhhhhhhhh7\nh");
    }
}
