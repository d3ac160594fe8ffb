use crate::{Class, Pattern};

/// Prints a pattern as a regular expression that has the same meaning in Rust, Python and
/// JavaScript.
pub(crate) fn regex(pattern: &Pattern) -> String {
    let mut out = String::new();
    write(pattern, &mut out);
    out
}

/// Prints a text as a regular expression.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::new();
    text.chars().for_each(|character| write_character(character, &mut out));
    out
}

fn write(pattern: &Pattern, out: &mut String) {
    match pattern {
        Pattern::Text(text) => out.push_str(&escaped(text)),
        Pattern::Class(class) => write_class(class, out),
        Pattern::Sequence(parts) => {
            for part in parts {
                match part {
                    Pattern::Choice(_) => grouped(part, out),
                    other => write(other, out),
                }
            }
        }
        Pattern::Choice(ways) if ways.is_empty() => write_class(&Class::of(&[]), out),
        Pattern::Choice(ways) => {
            for (index, way) in ways.iter().enumerate() {
                out.push_str(if index > 0 { "|" } else { "" });
                write(way, out);
            }
        }
        Pattern::Repeat { pattern, min, max } => {
            match **pattern {
                Pattern::Class(_) => write(pattern, out),
                _ => grouped(pattern, out),
            }
            out.push_str(&match (min, max) {
                (0, None) => "*".into(),
                (1, None) => "+".into(),
                (0, Some(1)) => "?".into(),
                (min, None) => format!("{{{min},}}"),
                (min, Some(max)) if min == max => format!("{{{min}}}"),
                (min, Some(max)) => format!("{{{min},{max}}}"),
            });
        }
    }
}

fn grouped(pattern: &Pattern, out: &mut String) {
    out.push_str("(?:");
    write(pattern, out);
    out.push(')');
}

fn write_class(class: &Class, out: &mut String) {
    if class.ranges.is_empty() {
        // All characters, or none.
        out.push_str(if class.negated { "[\\s\\S]" } else { "[^\\s\\S]" });
        return;
    }
    if let ([(one, same)], false) = (class.ranges.as_slice(), class.negated)
        && one == same
    {
        return write_character(*one, out);
    }
    out.push_str(if class.negated { "[^" } else { "[" });
    for (first, last) in &class.ranges {
        write_character(*first, out);
        if first != last {
            out.push('-');
            write_character(*last, out);
        }
    }
    out.push(']');
}

fn write_character(character: char, out: &mut String) {
    match character {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if c.is_ascii_control() => out.push_str(&format!("\\x{:02x}", c as u32)),
        ' ' | '_' | '<' | '>' | '"' | '\'' | ',' | ':' | ';' | '=' | '!' | '%' | '@' | '`' => out.push(character),
        c if c.is_ascii_punctuation() => out.extend(['\\', c]),
        c => out.push(c),
    }
}
